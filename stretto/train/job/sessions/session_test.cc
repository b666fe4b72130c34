// Sessions on a virtual clock: a thread for each rank, of which one runs at a time.

#include "stretto/train/job/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/collective/plain.h"
#include "stretto/membership/rank_over_transport.h"
#include "stretto/simulate/virtual_ranks.h"
#include "stretto/train/replica/replica.h"
#include "stretto/train/testing/deaf.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::HasSubstr;

thread_local std::function<void()> between;  // the two collectives of TwoKinds, on this rank

/// A recipe of a user's own: each step meets the others twice, in collectives of different kinds.
class TwoKinds final : public Recipe {
 public:
  explicit TwoKinds(const RecipeContext& context)
      : context_(context),
        partial_(std::make_shared<PartialAllreduce>(context.engine, context.replica.buckets())),
        barrier_(std::make_shared<Barrier>(context.engine)) {}

  void begin_step(const DepositInfo&) override {
    current_ = &partial_->acquire();
    context_.replica.attach(current_->index(), std::vector{current_->bucket(0), current_->bucket(1)});
  }
  std::optional<std::string> end_backward() override {
    context_.replica.end_backward();
    return std::nullopt;
  }
  void deposit(const DepositInfo& step) override { partial_->deposit(*current_, step); }
  Result<int> advance(Driver& driver, TimePoint deadline) override {
    if (!summed_) {
      auto rounds = partial_->exchange(driver, deadline, [](const RoundResult&) {});
      if (!rounds) return rounds;
      summed_ = true;
      if (between) between();
    }
    const auto met = barrier_->run(driver, deadline);
    if (!met) return met.error();
    summed_ = false;
    return 1;
  }
  Result<int> finish(Driver& driver, TimePoint deadline) override {
    return partial_->finish(driver, deadline, [](const RoundResult&) {});
  }
  Result<bool> drain(Driver&) override {
    const auto progress = partial_->try_finish([](const RoundResult&) {});
    if (!progress) return progress.error();
    return *progress == PartialAllreduce::Progress::done;
  }
  std::vector<std::shared_ptr<Collective>> collectives() const override { return {partial_, barrier_}; }
  Round rounds() const override { return partial_->handed(); }
  RecipeMemory memory() const override { return memory_of(*partial_); }
  bool averages_gradients() const override { return true; }

 private:
  const RecipeContext context_;
  const std::shared_ptr<PartialAllreduce> partial_;
  const std::shared_ptr<Barrier> barrier_;
  Contribution* current_ = nullptr;
  bool summed_ = false;  // the barrier comes next
};

constexpr RecipeInfo kTwoKinds = {
    "two-kinds",
    "",
    "",
    "shared",
    [](const std::string&, int, int) { return Policy::full(); },
    [](const RecipeContext& context) -> std::unique_ptr<Recipe> { return std::make_unique<TwoKinds>(context); }};

/// One rank of a test, on the virtual clock.
struct RankOfTest {
  explicit RankOfTest(VirtualRank& rank) : place(rank), context(rank.transport(), rank.clock(), &rank) {
    rank.drive_engine(&context.world().engine());
  }
  int rank() const { return place.rank(); }
  Session session(Replica& replica, const Algorithm& algorithm) {
    return Session(context, replica, deaf,
                   {.recipe = algorithm.recipe,
                    .recipe_options = {.policy = algorithm.policy,
                                       .local_steps = algorithm.recipe->local_steps,
                                       .argument = algorithm.argument},
                    .tell = [this](Round, const std::string& line) { told.push_back(line); }});
  }

  VirtualRank& place;
  RankOverTransport context;
  Deaf deaf;
  std::vector<std::string> told;
};

std::unique_ptr<RankTask> start(std::uint64_t seed) {
  static const auto task = linear_task();
  return task->start_rank({.seed = seed, .lr = 0.05, .momentum = 0.9});
}

void step(Session& session, RankTask& task, const std::vector<std::uint32_t>& samples) {
  session.begin_step(samples.size(), Duration(0));
  task.forward_backward(samples, 1);
  session.end_backward("here");
  session.deposit(Duration(0));
  session.take();
}

void run(int ranks, const std::function<void(RankOfTest&)>& application) {
  SimulatedCluster cluster(ranks, {.jitter = 20us}, 3);
  VirtualRanks(cluster).run([&](VirtualRank& place) {
    RankOfTest rank(place);
    application(rank);
  });
}

/// Three steps of TwoKinds on three ranks; rank 1 does `odd` in the second step, before the first collective or between
/// the two. Calls `after` on each rank, with what was thrown there (empty: nothing).
void run_two_kinds(bool in_second, const std::function<void(RankOfTest&, Session&)>& odd,
                   const std::function<void(RankOfTest&, Session&, const std::string& thrown)>& after) {
  run(3, [&](RankOfTest& rank) {
    const auto task = start(1);
    Session session = rank.session(task->replica(), {&kTwoKinds, Policy::full()});
    std::string thrown;
    try {
      session.begin({});
      for (int number = 0; number < 3; ++number) {
        const bool now = rank.rank() == 1 && number == 1;
        between = [&, now] {
          if (now && in_second) odd(rank, session);
        };
        if (now && !in_second) odd(rank, session);
        step(session, *task, {0, 1});
      }
      session.finish();
    } catch (const Failure& failure) {
      thrown = failure.what();
    }
    between = nullptr;
    after(rank, session, thrown);
  });
}

TEST(SessionTest, NamesALateRankInACollectiveOfAnyKind) {
  for (const bool in_second : {false, true}) {
    std::vector<std::string> told;
    run_two_kinds(
        in_second, [](RankOfTest& rank, Session&) { rank.place.compute(25s); },
        [&](RankOfTest& rank, Session&, const std::string& thrown) {
          EXPECT_EQ(thrown, "");
          told.insert(told.end(), rank.told.begin(), rank.told.end());
        });
    ASSERT_FALSE(told.empty()) << in_second;
    EXPECT_THAT(told, Each(HasSubstr(in_second ? "barrier" : "(full) waits for rank 1 (computing)")));
    EXPECT_THAT(told, testing::Contains(HasSubstr("rank 1")));
  }
}

TEST(SessionTest, NamesALostRankInACollectiveOfAnyKind) {
  for (const bool in_second : {false, true}) {
    int failed = 0;
    run_two_kinds(
        in_second,
        [](RankOfTest& rank, Session&) {
          rank.place.cluster().crash(1, 1ms);
          throw Failure({Errc::lost_peer, "this is the end of rank 1", 1});
        },
        [&](RankOfTest& rank, Session&, const std::string& thrown) {
          if (rank.rank() == 1) return;
          EXPECT_THAT(thrown, HasSubstr("rank 1")) << rank.rank();
          ++failed;
        });
    EXPECT_EQ(failed, 2);
  }
}

TEST(SessionTest, StopsEveryCollectiveOnEveryRank) {
  for (const bool in_second : {false, true}) {
    run_two_kinds(
        in_second,
        [](RankOfTest&, Session& session) {
          session.abort("enough");
          throw Failure({Errc::aborted, "enough", 1});
        },
        [&](RankOfTest& rank, Session& session, const std::string& thrown) {
          rank.place.compute(1ms);  // until the news of both has come
          EXPECT_THAT(thrown, HasSubstr(rank.rank() == 1 ? "enough" : "rank 1 stopped the job: enough"));
          const auto collectives = session.recipe().collectives();
          ASSERT_EQ(collectives.size(), 2u);
          for (const auto& collective : collectives) {
            ASSERT_TRUE(collective->failure()) << "rank " << rank.rank();
            EXPECT_EQ(collective->failure()->code, Errc::aborted);
            EXPECT_THAT(collective->failure()->message, HasSubstr("enough"));
          }
        });
  }
}

TEST(SessionTest, TellsTheOthersOfAnExceptionOfOneRankWithItsCode) {
  run(3, [&](RankOfTest& rank) {
    const auto task = start(1);
    Session session = rank.session(task->replica(), parse_algorithm("sync", 3));
    const auto trains = [&] {
      session.begin({});
      step(session, *task, {0, 1});
      if (rank.rank() == 1) throw Failure({Errc::io, "no folder", 1});
      step(session, *task, {0, 1});
    };
    const auto is_io = testing::Property(&Failure::error, testing::Field(&Error::code, Errc::io));
    EXPECT_THAT([&] { session.telling(trains); }, testing::Throws<Failure>(is_io));
  });
}

TEST(SessionTest, NoRankStopsTheJobOverADifferenceOfWhichAllThrow) {
  run(3, [&](RankOfTest& rank) {
    const auto all = linear_task();
    const auto task = all->start_rank({.seed = 1, .lr = rank.rank() == 1 ? 0.5 : 0.25});
    Session session = rank.session(task->replica(), parse_algorithm("sync", 3));
    EXPECT_THAT(
        [&] { session.telling([&] { session.begin({}); }); },
        testing::ThrowsMessage<UsageError>(HasSubstr("rank 1 differs from rank 0 in its optimizer: on rank 1")));
    rank.place.compute(1ms);  // until news would have come
    for (const auto& collective : session.recipe().collectives()) EXPECT_FALSE(collective->failure());
  });
}

TEST(SessionTest, ComparesReplicasAndCountsDeposits) {
  run(3, [&](RankOfTest& rank) {
    const auto task = start(1);
    Session session = rank.session(task->replica(), parse_algorithm("sync", 3));
    session.begin({});
    session.finish();
    EXPECT_TRUE(session.compare(0).differ.empty());
    std::string state = task->replica().optimizer_state();
    state[0] ^= 1;
    if (rank.rank() == 1) task->replica().set_optimizer_state(state);
    if (rank.rank() == 2) task->replica().parameters(0)[0] ^= std::byte{1};
    const Session::Comparison found = session.compare(10 + static_cast<std::uint64_t>(rank.rank()));
    ASSERT_EQ(found.differ.size(), 2u);
    EXPECT_EQ(found.differ[0].rank, 1);
    EXPECT_FALSE(found.differ[0].in_parameters);
    EXPECT_EQ(found.differ[1].rank, 2);
    EXPECT_TRUE(found.differ[1].in_parameters);
    EXPECT_EQ(found.deposits, 10u + 11 + 12);
  });
}

/// Two equal gradients have the one as their average: two ranks train as one alone, to the bit.
TEST(SessionTest, TrainsOnAVirtualClock) {
  for (const char* algorithm : {"sync", "local"}) {
    const auto train = [&](int ranks) {
      std::vector<ReplicaChecksum> ends(static_cast<std::size_t>(ranks));
      run(ranks, [&](RankOfTest& rank) {
        const auto task = start(static_cast<std::uint64_t>(rank.rank()) + 1);
        Session session = rank.session(task->replica(), parse_algorithm(algorithm, ranks));
        session.begin({});
        for (std::uint32_t number = 0; number < 4; ++number) {
          rank.place.compute(1ms * (rank.rank() + 1));
          step(session, *task, {2 * number, 2 * number + 1});
        }
        session.finish();
        ends[static_cast<std::size_t>(rank.rank())] = task->replica().checksum();
        EXPECT_GE(rank.place.clock().now().since_start, 4ms * ranks);
      });
      return ends;
    };
    const auto alone = train(1);
    EXPECT_THAT(train(2), Each(alone[0])) << algorithm;
    EXPECT_NE(alone[0], start(1)->replica().checksum());
  }
}

/// The last rank has five times as many batches, and is slow: it needs the others to let it go on in both.
TEST(SessionTest, ARankThatEndsOneKeepsNobodyWaitingInItsOthers) {
  for (const char* algorithm :
       {"sync", "eager-solo", "eager-majority", "eager-quorum", "eager-quorum:3", "local", "wagma"}) {
    std::vector<ReplicaChecksum> ends;
    run(3, [&](RankOfTest& rank) {
      const auto task_a = start(1), task_b = start(2);
      Session a = rank.session(task_a->replica(), parse_algorithm(algorithm, 3));
      Session b = rank.session(task_b->replica(), parse_algorithm(algorithm, 3));
      a.begin({});
      b.begin({});
      for (std::uint32_t number = 0; number < (rank.rank() == 2 ? 15 : 3); ++number) {
        rank.place.compute(rank.rank() == 2 ? 2ms : 100us);
        step(a, *task_a, {number, number + 1});
        step(b, *task_b, {number + 2});
      }
      b.finish();
      EXPECT_EQ(a.drained(), true);
      a.finish();
      EXPECT_THAT(rank.told, testing::IsEmpty()) << algorithm;
      EXPECT_LT(rank.place.clock().now().since_start, 1s) << algorithm;
      ends.push_back(task_a->replica().checksum());
    });
    ASSERT_EQ(ends.size(), 3u);
    for (const ReplicaChecksum& end : ends) EXPECT_EQ(end.parameters, ends[0].parameters) << algorithm;
  }
}

/// Two models, each averaged by an algorithm of its own; rank 0 is slow, and the others have more batches.
TEST(SessionTest, TwoAlgorithmsThatAverageModelsGoSideBySide) {
  const std::pair<const char*, const char*> pairs[] = {{"wagma", "local"},
                                                       {"local", "wagma"},
                                                       {"wagma:2", "diloco"},
                                                       {"wagma", "d-psgd"},
                                                       {"easgd", "local"},
                                                       {"sgp", "ad-psgd"},
                                                       {"ad-psgd", "wagma"},
                                                       {"gossip-grad", "easgd-async"},
                                                       {"local", "sync"},
                                                       {"wagma-quorum", "sync"},
                                                       {"wagma-quorum", "ad-psgd"},
                                                       {"eager-solo", "local"},
                                                       {"local:quorum", "eager-quorum"},
                                                       {"ssp:1", "wagma"}};
  for (const auto& [first, second] : pairs) {
    std::vector<ReplicaChecksum> ends_a, ends_b;
    run(3, [&, first = first, second = second](RankOfTest& rank) {
      const auto task_a = start(1), task_b = start(2);
      Session a = rank.session(task_a->replica(), parse_algorithm(first, 3));
      Session b = rank.session(task_b->replica(), parse_algorithm(second, 3));
      a.begin({});
      b.begin({});
      for (std::uint32_t number = 0; number < (rank.rank() == 0 ? 30 : 40); ++number) {
        rank.place.compute(rank.rank() == 0 ? 1ms : 100us);
        step(a, *task_a, {number, number + 1});
        step(b, *task_b, {number + 2});
      }
      a.finish();
      b.finish();
      EXPECT_THAT(rank.told, testing::IsEmpty()) << first << " beside " << second;
      ends_a.push_back(task_a->replica().checksum());
      ends_b.push_back(task_b->replica().checksum());
    });
    ASSERT_EQ(ends_a.size(), 3u) << first << " beside " << second;
    for (const ReplicaChecksum& end : ends_a) EXPECT_EQ(end.parameters, ends_a[0].parameters) << first;
    for (const ReplicaChecksum& end : ends_b) EXPECT_EQ(end.parameters, ends_b[0].parameters) << second;
  }
}

/// Each of these pairs has been seen to stand still where the first rank is slow.
TEST(SessionTest, AlgorithmsThatCouldWaitForEachOtherAreRefused) {
  const std::pair<const char*, const char*> pairs[] = {
      {"wagma-quorum", "local"},   {"wagma-quorum", "wagma"},   {"wagma-quorum", "wagma-quorum"},
      {"wagma-quorum", "easgd"},   {"eager-quorum", "local"},   {"eager-quorum", "diloco"},
      {"eager-quorum", "wagma"},   {"eager-majority", "local"}, {"k-sync:2", "local"},
      {"k-sync:2", "wagma-quorum"}};
  for (const auto& [late, meets] : pairs) {
    for (const bool swapped : {false, true}) {
      run(3, [&, first = swapped ? meets : late, second = swapped ? late : meets](RankOfTest& rank) {
        const auto task_a = start(1), task_b = start(2);
        Session a = rank.session(task_a->replica(), parse_algorithm(first, 3));
        Session b = rank.session(task_b->replica(), parse_algorithm(second, 3));
        a.begin({});
        try {
          b.begin({});
          ADD_FAILURE() << first << " beside " << second;
        } catch (const UsageError& error) {
          EXPECT_THAT(error.what(), HasSubstr("a late rank could wait in"));
          EXPECT_THAT(error.what(), HasSubstr("expected sync beside it"));
        }
        a.finish();
      });
    }
  }
}

TEST(SessionTest, OthersGoOnOnlyWhereNoRankCanBeAhead) {
  for (const char* parting : {"eager-solo", "wagma", "d-psgd", "ad-psgd"}) {
    run(2, [parting](RankOfTest& rank) {
      const auto task = start(1);
      Session a = rank.session(task->replica(), parse_algorithm(parting, 2));
      Session b = rank.session(task->replica(), parse_algorithm("sync", 2));
      a.begin({});
      b.begin({});
      EXPECT_THROW(b.finish(Others::go_on), UsageError);
      a.finish();
      EXPECT_TRUE(b.drained());
      b.finish(Others::go_on);
    });
  }
}

/// Every rank leaves the loop of one in the middle of a step, rank 0 first. The engine goes on to sum what they have
/// handed over, while the other goes on, in memory that is still there (which the address sanitizer sees).
TEST(SessionTest, WhatALoopHasLeftInTheMiddleOfAStepKeepsItsMemory) {
  std::vector<ReplicaChecksum> ends;
  run(3, [&](RankOfTest& rank) {
    const auto task_a = start(1), task_b = start(2);
    Session b = rank.session(task_b->replica(), parse_algorithm("sync", 3));
    b.begin({});
    {
      const Algorithm algorithm = parse_algorithm("sync", 3);
      Session a(rank.context, task_a->replica(), rank.deaf,
                {.recipe = algorithm.recipe,
                 .recipe_options = {.policy = algorithm.policy, .algorithm = {{"ordering", "coordinator"}}}});
      a.begin({});
      step(a, *task_a, {0, 1});
      rank.place.compute(rank.rank() * 1ms);
      a.begin_step(2, Duration(0));
      task_a->forward_backward(std::vector<std::uint32_t>{2, 3}, 1);
      a.end_backward("here");
      a.deposit(Duration(0));
    }
    for (std::uint32_t number = 0; number < 30; ++number) {
      rank.place.compute(1ms);
      step(b, *task_b, {number});
    }
    b.finish();
    ends.push_back(task_b->replica().checksum());
  });
  ASSERT_EQ(ends.size(), 3u);
  for (const ReplicaChecksum& end : ends) EXPECT_EQ(end.parameters, ends[0].parameters);
}

TEST(SessionTest, ALineThatComesUpWhileARankWaitsIsToldWithinASecond) {
  std::vector<std::pair<Duration, std::string>> told;  // since rank 0 began to wait
  run(2, [&](RankOfTest& rank) {
    const auto task = start(1);
    TimePoint waits;
    const Algorithm algorithm = parse_algorithm("sync", 2);
    Session session(rank.context, task->replica(), rank.deaf,
                    {.recipe = algorithm.recipe,
                     .recipe_options = {.policy = algorithm.policy,
                                        .algorithm = {{"ordering", "coordinator"}, {"stall-warning", "3s"}}},
                     .tell = [&](Round, const std::string& line) {
                       if (rank.rank() == 0) told.emplace_back(rank.place.clock().now() - waits, line);
                     }});
    session.begin({});
    waits = rank.place.clock().now();
    if (rank.rank() == 1) rank.place.compute(15s);
    step(session, *task, {0, 1});
    session.finish();
  });
  ASSERT_EQ(told.size(), 2u);
  EXPECT_THAT(told[0].second, HasSubstr("step 0, after 3 s: "));
  EXPECT_LT(told[0].first, 4500ms);
  EXPECT_THAT(told[1].second, HasSubstr("step 0 waits for "));  // after SessionOptions::silence
  EXPECT_GE(told[1].first, 10s);
}

TEST(SessionTest, ALoopThatLeavesNoGraphIsToldOnceByWhatTopoPlans) {
  for (const bool records : {true, false}) {
    run(2, [&](RankOfTest& rank) {
      const auto task = start(1);
      const Algorithm algorithm = parse_algorithm("sync", 2);
      Session session(rank.context, task->replica(), rank.deaf,
                      {.recipe = algorithm.recipe,
                       .recipe_options = {.policy = algorithm.policy, .algorithm = {{"ordering", "topo"}}},
                       .tell = [&](Round, const std::string& line) { rank.told.push_back(line); }});
      session.begin({});
      for (std::uint32_t number = 0; number < 3; ++number) {
        session.begin_step(1, Duration(0));
        task->forward_backward(std::vector<std::uint32_t>{number}, 1);
        if (!records) task->replica().gradients_by_tensor()->take_graph();
        session.end_backward("here");
        session.deposit(Duration(0));
        session.take();
      }
      session.finish();
      if (records || rank.rank() != 0) {
        EXPECT_THAT(rank.told, testing::IsEmpty());
      } else {
        EXPECT_THAT(rank.told, testing::ElementsAre(HasSubstr("step 0: the loop calls loss.backward() itself")));
      }
    });
  }
}

TEST(SessionTest, OthersGoOnWhereARankIsAlone) {
  run(1, [](RankOfTest& rank) {
    const auto task = start(1);
    Session a = rank.session(task->replica(), parse_algorithm("eager-solo", 1));
    Session b = rank.session(task->replica(), parse_algorithm("sync", 1));
    a.begin({});
    b.begin({});
    b.finish(Others::go_on);
    EXPECT_FALSE(a.drained());
    a.finish();
  });
}

}  // namespace
}  // namespace stretto
