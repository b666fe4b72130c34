// What is averaged beside the models, in every algorithm that does so, on a virtual clock: a thread for each rank, of
// which one runs at a time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/membership/rank_over_transport.h"
#include "stretto/simulate/virtual_ranks.h"
#include "stretto/train/job/run_plan.h"
#include "stretto/train/job/session.h"
#include "stretto/train/recipes/full_rounds.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

struct Averaging {
  const char* algorithm;
  AlgorithmOptions options;
  std::uint64_t local_steps = 3;
  std::uint64_t full_every = 0;
};

const Averaging kAveraging[] = {{.algorithm = "local"},
                                {.algorithm = "local:quorum:2", .options = {}, .local_steps = 2, .full_every = 8},
                                {.algorithm = "diloco"},
                                {.algorithm = "diloco:quorum:2", .options = {{"full-every", "8"}}, .local_steps = 2},
                                {.algorithm = "wagma:2", .options = {{"tau", "3"}}},
                                {.algorithm = "wagma-quorum:2", .options = {{"tau", "3"}}},
                                {.algorithm = "d-psgd"},
                                {.algorithm = "gossip-grad"},
                                {.algorithm = "sgp"},
                                {.algorithm = "osgp"},
                                {.algorithm = "ad-psgd"},
                                {.algorithm = "easgd"},
                                {.algorithm = "easgd-async", .options = {{"full-every", "12"}}},
                                {.algorithm = "easgd-grid"}};

/// The arrays of one rank that are averaged or not, as they are now.
struct State {
  std::vector<float> momentum, statistics;
  friend bool operator==(const State&, const State&) = default;
};

std::vector<float> numbers(const std::vector<Replica::Buffer>& arrays) {
  std::vector<float> all;
  for (const auto& array : arrays) {
    const auto* first = reinterpret_cast<const float*>(array.memory.data());
    all.insert(all.end(), first, first + array.memory.size() / sizeof(float));
  }
  return all;
}

/// Before and after a full round, of each rank.
struct Meetings {
  std::map<Round, std::vector<State>> before, after;
};

class Listener final : public RoundListener {
 public:
  Listener(Replica& replica, int rank, int ranks, Meetings& meetings)
      : replica_(replica), rank_(static_cast<std::size_t>(rank)), ranks_(ranks), meetings_(meetings) {}
  void before(const RoundResult& result) override { note(result, meetings_.before); }
  void after(const RoundResult& result) override {
    if (!result.empty()) note(result, meetings_.after);
  }

 private:
  void note(const RoundResult& result, std::map<Round, std::vector<State>>& states) {
    if (result.policy.kind != Policy::Kind::full) return;
    auto& all = states[result.round];
    all.resize(static_cast<std::size_t>(ranks_));
    all[rank_] = {numbers(replica_.optimizer_arrays()), numbers(replica_.local_buffers()->floating_buffers())};
  }

  Replica& replica_;
  const std::size_t rank_;
  const int ranks_;
  Meetings& meetings_;
};

/// Trains with `said` beside the case's options; rank r has 12 + 2r batches.
Meetings train(const Averaging& how, int ranks, const AlgorithmOptions& said) {
  const auto task = linear_task();
  const Algorithm algorithm = parse_algorithm(how.algorithm, ranks);
  RecipeOptions options{.policy = algorithm.policy,
                        .full_every = how.full_every,
                        .local_steps = how.local_steps,
                        .argument = algorithm.argument,
                        .algorithm = how.options};
  for (const auto& [name, value] : said.values()) options.algorithm.set(name, value);
  if (algorithm.recipe->check != nullptr) algorithm.recipe->check(options, ranks);
  Meetings meetings;
  int over = 0;
  SimulatedCluster cluster(ranks, {.jitter = 20us}, 3);
  VirtualRanks(cluster).run([&](VirtualRank& place) {
    RankOverTransport context(place.transport(), place.clock(), &place);
    place.drive_engine(&context.world().engine());
    const auto mine = task->start_rank({.seed = 1, .lr = 0.01, .momentum = 0.9});
    Listener listener(mine->replica(), place.rank(), ranks, meetings);
    Session session(context, mine->replica(), listener, {.recipe = algorithm.recipe, .recipe_options = options});
    session.begin({});
    const auto steps = 12 + 2 * static_cast<std::uint32_t>(place.rank());
    for (std::uint32_t number = 0; number < steps; ++number) {
      place.compute(100us * (1 + place.rank()));
      const std::uint32_t sample = (7 * number + 16 * static_cast<std::uint32_t>(place.rank())) % 64;
      session.begin_step(1, Duration(0));
      mine->forward_backward(std::vector{sample}, 1);
      session.end_backward("here");
      session.deposit(Duration(0));
      session.take();
    }
    session.finish();
    ++over;
    // As long as another may have something to say to this rank: words of a line that has stopped are taken, too.
    place.wait([&] { return over == ranks; }, TimePoint::never());
    place.drive_engine(nullptr);
  });
  return meetings;
}

std::vector<float> mean_of_two(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> mean(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) mean[i] = (a[i] + b[i]) / 2;
  return mean;
}

TEST(StateAverage, OfTwoRanksIsTheirMeanToTheBitAfterEachRoundOfAll) {
  for (const Averaging& how : kAveraging) {
    const Meetings meetings = train(how, 2, {{"average-momentum", "yes"}, {"average-statistics", "full"}});
    EXPECT_GE(meetings.after.size(), 3u) << how.algorithm;
    for (const auto& [round, after] : meetings.after) {
      const auto& before = meetings.before.at(round);
      EXPECT_NE(before[0], before[1]) << how.algorithm << ", round " << round;
      for (const State& rank : after) {
        EXPECT_EQ(rank.momentum, mean_of_two(before[0].momentum, before[1].momentum)) << how.algorithm;
        EXPECT_EQ(rank.statistics, mean_of_two(before[0].statistics, before[1].statistics)) << how.algorithm;
      }
    }
  }
}

TEST(StateAverage, IsTheSameOnAllRanksWhereItIsAskedForAndLocalElsewhere) {
  for (const Averaging& how : kAveraging) {
    for (const bool momentum : {false, true}) {
      for (const bool statistics : {false, true}) {
        const Meetings meetings =
            train(how, 4,
                  {{"average-momentum", momentum ? "yes" : "no"}, {"average-statistics", statistics ? "full" : "end"}});
        for (const auto& [round, after] : meetings.after) {
          const State& before = meetings.before.at(round)[3];
          EXPECT_EQ(after[3].momentum == after[0].momentum, momentum) << how.algorithm << ", round " << round;
          EXPECT_EQ(after[3].statistics == after[0].statistics, statistics) << how.algorithm << ", round " << round;
          const bool first = round == meetings.after.begin()->first;  // later nothing may have moved since the last
          if (first || !momentum) {
            EXPECT_EQ(after[3].momentum == before.momentum, !momentum) << how.algorithm;
          }
          if (first || !statistics) {
            EXPECT_EQ(after[3].statistics == before.statistics, !statistics) << how.algorithm;
          }
        }
      }
    }
  }
}

TEST(StateAverage, IsTheDefaultOfWagmaQuorumAlone) {
  for (const Averaging& how : kAveraging) {
    const bool averaged = std::string_view(how.algorithm).starts_with("wagma-quorum");
    for (const auto& [round, after] : train(how, 3, {}).after) {
      EXPECT_EQ(after[2].momentum == after[0].momentum, averaged) << how.algorithm << ", round " << round;
      EXPECT_NE(after[2].statistics, after[0].statistics) << how.algorithm << ", round " << round;
    }
  }
}

TEST(StateAverage, OfStatisticsIsAlsoWhereServersMoveTheWeights) {
  for (const char* algorithm : {"ps-sync", "ps-async", "ssp:1", "k-sync:2"}) {
    for (const bool full : {false, true}) {
      const Meetings meetings = train({.algorithm = algorithm}, 3, {{"average-statistics", full ? "full" : "end"}});
      EXPECT_GE(meetings.after.size(), 3u) << algorithm;
      for (const auto& [round, after] : meetings.after) {
        EXPECT_EQ(after[2].statistics == after[0].statistics, full) << algorithm << ", round " << round;
      }
    }
  }
}

std::string complaint(const TrainOptions& options) {
  try {
    (void)plan_run(options, linear_task()->facts());
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(StateAverage, IsRefusedWhereAllMeetAtTheEndAlone) {
  const std::pair<const char*, const char*> cases[] = {
      {"d-psgd", "sync-every 10"},
      {"gossip-grad", "sync-every 10"},
      {"sgp", "sync-every 10"},
      {"osgp", "sync-every 10"},
      {"ad-psgd", "sync-every 10"},
      {"easgd-async", "full-every 1000"},
      {"local:quorum", "checkpoint-every 1000"},
      {"diloco:quorum", "full-every 1000"},
  };
  for (const auto& [algorithm, expected] : cases) {
    TrainOptions options{.algorithm = algorithm, .ranks = 4, .algorithm_options = {{"average-momentum", "yes"}}};
    EXPECT_EQ(complaint(options), text("average-momentum yes where all ranks meet at the end alone: expected rounds of "
                                       "all before, as with ",
                                       expected));
    options.algorithm_options = {{"average-statistics", "full"}};
    EXPECT_THAT(complaint(options), HasSubstr("average-statistics full where"));
    options.algorithm_options = {{"average-momentum", "no"}, {"average-statistics", "end"}};
    EXPECT_EQ(complaint(options), "");
  }
}

}  // namespace
}  // namespace stretto
