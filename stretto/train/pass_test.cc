// Ranks that drop batches (Recipe::pass()), under every algorithm, on a virtual clock. Gradients are integers and sums
// are divided by four, so that weights are exact in any order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/membership/rank_over_transport.h"
#include "stretto/simulate/virtual_ranks.h"
#include "stretto/train/job/session.h"
#include "stretto/train/testing/two_numbers.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::HasSubstr;

constexpr int kRanks = 4;
constexpr int kSteps = 40;

/// Counts what the headers of rounds say.
struct Counts final : RoundListener {
  void before(const RoundResult&) override { ++not_empty; }
  void after(const RoundResult& result) override {
    batches += result.header->batches;
    samples += result.header->samples;
    ++rounds;
    for (int rank = 0; rank < kRanks; ++rank) {
      contributions[static_cast<std::size_t>(rank)] +=
          result.header->fresh.contains(rank) || result.header->stale.contains(rank) ? 1 : 0;
    }
  }
  std::uint64_t batches = 0, samples = 0, rounds = 0, not_empty = 0;
  std::array<std::uint64_t, kRanks> contributions{};
};

/// What a rank has at the end.
struct End {
  std::vector<float> numbers;
  Counts counts;
  OwnCounts own;
};

struct Job {
  std::string algorithm;
  float momentum = 0;
  Normalize normalize = Normalize::ranks;
  bool overlap = false;
  bool notes = false;
  std::uint64_t full_every = 0;
  int steps = kSteps;
  bool by_layer = false;
};

using Application = std::function<void(Session&, TwoNumbers&, int rank)>;

std::vector<End> run(const Job& job, const Application& application) {
  std::vector<End> ends(kRanks);
  SimulatedCluster cluster(kRanks, {.jitter = 20us}, 3);
  VirtualRanks(cluster).run([&](VirtualRank& place) {
    RankOverTransport context(place.transport(), place.clock(), &place);
    place.drive_engine(&context.world().engine());
    TwoNumbers replica(job.momentum);
    End& end = ends[static_cast<std::size_t>(place.rank())];
    const Algorithm algorithm = parse_algorithm(job.algorithm, kRanks);
    const auto stop = [](Round, const std::string& line) { throw Failure({Errc::timeout, line}); };
    Session session(context, replica, end.counts,
                    {.recipe = algorithm.recipe,
                     .recipe_options = {.policy = algorithm.policy,
                                        .normalize = job.normalize,
                                        .full_every = job.full_every,
                                        .local_steps = algorithm.recipe->local_steps,
                                        .overlap = job.overlap,
                                        .notes = job.notes,
                                        .argument = algorithm.argument},
                     .tell = stop});
    session.begin({});
    if (job.by_layer) session.bring_by_layer();
    for (int step = 0; step < job.steps; ++step) {
      place.compute(place.rank() == 2 ? 900us : 200us + 100us * (step % 3));
      application(session, replica, place.rank());
    }
    session.finish();
    end.numbers = replica.numbers();
    end.own = session.recipe().own_counts();
  });
  return ends;
}

void take_step(Session& session, TwoNumbers& replica, float gradient) {
  session.begin_step(2, Duration(0));
  replica.backward(0, gradient);
  replica.backward(1, 2 * gradient);
  session.end_backward("here");
  session.deposit(Duration(0));
  session.take();
}

void pass_step(Session& session, TwoNumbers& replica) {
  session.begin_step(2, Duration(0));
  if (!session.recipe().averages_gradients()) replica.backward(0, 1e30f);
  session.pass();
  session.take();
}

/// With an argument where the algorithm needs one.
std::string named(const RecipeInfo& recipe) {
  static const std::map<std::string_view, std::string> arguments = {
      {"eager-deadline", ":3,1ms"}, {"ssp", ":1"}, {"k-sync", ":3"}};
  const auto found = arguments.find(recipe.name);
  return std::string(recipe.name) + (found == arguments.end() ? "" : found->second);
}

/// Rank 1 drops every tenth batch, and rank 3 all. Returns what each rank has at the end, and checks what holds under
/// every algorithm.
std::vector<End> drop_some(const Job& job, float* sum) {
  std::array<int, kRanks> step{};
  std::uint64_t deposits = 0;
  *sum = 0;
  std::vector<End> ends = run(job, [&](Session& session, TwoNumbers& replica, int rank) {
    const int now = step[static_cast<std::size_t>(rank)]++;
    if (rank == 3 || (rank == 1 && now % 10 == 9)) return pass_step(session, replica);
    const auto gradient = static_cast<float>(100 * rank + now);
    ++deposits;
    *sum += gradient;
    take_step(session, replica, gradient);
  });
  EXPECT_EQ(deposits, 3u * kSteps - kSteps / 10);
  for (const End& end : ends) {
    EXPECT_EQ(end.numbers, ends[0].numbers) << job.algorithm;
    EXPECT_EQ(end.counts.batches, deposits) << job.algorithm;
    EXPECT_EQ(end.counts.samples, 2 * deposits) << job.algorithm;
  }
  return ends;
}

class PassTest : public testing::Test {
 protected:
  PassTest() { ::alarm(200); }
  ~PassTest() override { ::alarm(0); }
};

TEST_F(PassTest, NobodyWaitsForARankThatDropsBatchesAndNothingIsLost) {
  for (const RecipeInfo& recipe : recipes()) {
    SCOPED_TRACE(recipe.name);
    float sum = 0;
    const std::vector<End> ends = drop_some({.algorithm = named(recipe)}, &sum);
    const std::string name(recipe.name);
    const bool server = name.starts_with("ps-") || name == "ssp";
    // Where a rank of four brings its model as it is, the average of models is that of steps.
    const bool exact = !recipe.averages_models || server || name == "local";
    if (exact && name != "diloco") {
      EXPECT_THAT(ends[0].numbers, testing::ElementsAre(-sum / kRanks, -2 * sum / kRanks));
    }
    if (!recipe.averages_models) {
      EXPECT_EQ(ends[0].counts.contributions[3], 0u) << "it has brought nothing";
    }
  }
}

TEST_F(PassTest, SyncCountsARoundAStep) {
  for (const bool overlap : {false, true}) {
    float sum = 0;
    const std::vector<End> ends = drop_some({.algorithm = "sync", .overlap = overlap, .notes = true}, &sum);
    EXPECT_EQ(ends[0].counts.rounds, kSteps + 1u) << "and the last, in which none has a batch";
    EXPECT_THAT(ends[0].counts.contributions, testing::ElementsAre(kSteps, kSteps - kSteps / 10, kSteps, 0));
    EXPECT_THAT(ends[0].numbers, testing::ElementsAre(-sum / kRanks, -2 * sum / kRanks));
  }
}

TEST_F(PassTest, EveryPolicyOfPhases) {
  for (const char* algorithm : {"diloco:solo", "diloco:quorum:3", "local:quorum:2", "local:majority"}) {
    float sum = 0;
    const std::vector<End> ends = drop_some({.algorithm = algorithm}, &sum);
    EXPECT_EQ(ends[0].counts.contributions[3], 0u) << algorithm;
  }
}

/// Whether a phase was the last follows from steps: a rank that goes on may have brought no batch.
TEST_F(PassTest, RanksMeetWhereOneHasDroppedAPhase) {
  for (const char* algorithm :
       {"ad-psgd", "easgd-async", "easgd-grid", "ps-sync", "ps-async", "ssp:1", "k-sync:3", "eager-solo"}) {
    float sum = 0;
    drop_some({.algorithm = algorithm, .full_every = 4 * kRanks}, &sum);
    const std::vector<End> ends = run({.algorithm = algorithm, .full_every = 4 * kRanks},
                                      [](Session& session, TwoNumbers& replica, int) { pass_step(session, replica); });
    EXPECT_THAT(ends[0].numbers, Each(0)) << algorithm;
  }
}

TEST_F(PassTest, ModelsThatWeighTheirSamplesWeighNothingWithoutAny) {
  const Job job{.algorithm = "local", .normalize = Normalize::samples};
  float sum = 0;
  const std::vector<End> ends = drop_some(job, &sum);
  EXPECT_LT(ends[0].numbers[0], 0);
  const std::vector<End> none =
      run(job, [](Session& session, TwoNumbers& replica, int) { pass_step(session, replica); });
  for (const End& end : none) EXPECT_THAT(end.numbers, Each(0));
}

/// With momentum an update without a gradient would move the weights.
TEST_F(PassTest, ARoundInWhichAllDropTheirBatchIsNoStep) {
  for (const char* algorithm : {"sync", "diloco", "local", "ps-sync", "ps-async", "ssp:1", "k-sync:4"}) {
    const auto train = [&](int steps) {
      std::array<int, kRanks> step{};
      return run({.algorithm = algorithm, .momentum = 0.5f, .steps = steps},
                 [&](Session& session, TwoNumbers& replica, int rank) {
                   if (step[static_cast<std::size_t>(rank)]++ > 0) return pass_step(session, replica);
                   take_step(session, replica, 64);
                 });
    };
    const std::vector<End> once = train(1), and_passes = train(9);
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      EXPECT_EQ(and_passes[r].numbers, once[r].numbers) << algorithm;
      EXPECT_EQ(and_passes[r].counts.batches, 4u) << algorithm;
      EXPECT_EQ(and_passes[r].own.taken, once[r].own.taken) << algorithm;
    }
    EXPECT_LT(once[0].numbers[0], 0) << algorithm;
  }
}

TEST_F(PassTest, WhatOthersHaveCannotBeDropped) {
  for (const char* algorithm : {"sync", "ps-sync", "k-sync:3"}) {
    int thrown = 0;
    std::array<int, kRanks> step{};
    run({.algorithm = algorithm, .overlap = true, .steps = 3}, [&](Session& session, TwoNumbers& replica, int rank) {
      if (rank != 1 || step[1]++ != 1) return take_step(session, replica, 1);
      session.begin_step(1, Duration(0));
      replica.backward(0, 1);
      try {
        session.pass();
      } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr("have"));
        ++thrown;
      }
      session.end_backward("here");
      session.deposit(Duration(0));
      session.take();
    });
    EXPECT_EQ(thrown, 1) << algorithm;
  }
}

TEST_F(PassTest, AStepIsDroppedOnceAndNotAfterTheEnd) {
  for (const char* algorithm : {"sync", "eager-solo", "local", "wagma", "sgp", "ad-psgd", "ps-async"}) {
    run({.algorithm = algorithm, .steps = 1}, [&](Session& session, TwoNumbers& replica, int) {
      EXPECT_THROW(session.pass(), UsageError) << "before a step";
      session.begin_step(1, Duration(0));
      session.pass();
      EXPECT_THROW(session.pass(), UsageError) << "twice";
      session.take();
      take_step(session, replica, 1);
      EXPECT_THROW(session.pass(), UsageError) << "after deposit()";
      session.begin_step(1, Duration(0));
      session.finish();
      EXPECT_THROW(session.pass(), UsageError) << "after finish()";
    });
  }
}

}  // namespace
}  // namespace stretto
