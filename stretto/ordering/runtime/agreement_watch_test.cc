// Jobs in which an agreement waits for a rank whose engine nobody drives, as one that was stopped: who is named.

#include "stretto/ordering/runtime/agreement_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stretto/ordering/testing/ordered_job.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using RankJob = std::function<void(VirtualRank&, OrderedAllreduce&)>;

/// Runs `job` on every rank, of which `undriven` have no helper thread. Returns each rank's lines.
std::vector<std::vector<std::string>> lines_of(int ranks, const OrderingOptions& options,
                                               const std::vector<int>& undriven, const RankJob& job) {
  SimulatedCluster cluster(ranks, {.jitter = 20us}, 1);
  std::vector<std::vector<std::string>> lines(static_cast<std::size_t>(ranks));
  VirtualRanks(cluster).run([&](VirtualRank& rank) {
    Engine engine(rank.transport(), rank.clock());
    const bool alone = std::ranges::count(undriven, rank.rank()) > 0;
    rank.drive_engine(&engine, alone ? ProgressBy::application : ProgressBy::thread);
    OrderedAllreduce all(engine, options);
    job(rank, all);
    lines[static_cast<std::size_t>(rank.rank())] = all.take_lines();
  });
  return lines;
}

/// Steps of one tensor, in which rank `late` computes for so long in step `step`, before it submits or after it has.
RankJob late_in_step(StepNumber step, int late, Duration computes, bool before = true) {
  return [=](VirtualRank& rank, OrderedAllreduce& all) {
    const std::vector<TensorDescription> tensors{{.name = "a", .type = DataType::int64, .count = 3}};
    OrderedMemory memory(tensors);
    const auto compute = [&] { rank.compute(rank.rank() == late && all.steps() == step ? computes : 1ms); };
    for (StepNumber s = 0; s < 3; ++s) {
      memory.fill(rank.rank(), s);
      all.begin_step({});
      if (before) compute();
      memory.submit(all, 0);
      if (!before) compute();
      all.end_step(rank, rank.deadline(100s), kNothing).or_throw();
      memory.expect_sums(ranks_from_0(rank.cluster().size()), s);
    }
    EXPECT_EQ(all.finish(rank, rank.deadline(100s), kNothing).or_throw(), 0);
  };
}

TEST(AgreementWatch, NamesARankWhoseEngineNobodyDrives) {
  for (const char* ordering : {"coordinator", "gs", "nbcs", "scp", "topo"}) {
    for (const int ranks : {2, 3, 5}) {
      for (const int late : {0, ranks - 1}) {
        // Under topo the first step is the coordinator's.
        const auto lines = lines_of(ranks, OrderingOptions::named(ordering), {late}, late_in_step(0, late, 30s));
        for (int rank = 0; rank < ranks; ++rank) {
          const auto& told = lines[static_cast<std::size_t>(rank)];
          if (rank == late) {
            EXPECT_THAT(told, IsEmpty()) << ordering;
            continue;
          }
          EXPECT_THAT(told, ElementsAre(AllOf(StartsWith("step 0, after 10 s: agreement "),
                                              EndsWith(text(" of set 0 is not complete: rank ", late,
                                                            " has not answered within 1 s")))))
              << ordering << ", rank " << rank << " of " << ranks;
        }
      }
    }
  }
}

TEST(AgreementWatch, TheJobFailsWhenTheTimeIsOver) {
  for (const char* ordering : {"coordinator", "gs", "nbcs", "topo"}) {
    OrderingOptions options = OrderingOptions::named(ordering);
    options.stall_warning = 1s;
    options.stall_abort = 3s;
    lines_of(3, options, {1}, [&](VirtualRank& rank, OrderedAllreduce& all) {
      const std::vector<std::int64_t> mine{1};
      std::vector<std::int64_t> sum(1);
      all.begin_step({});
      if (rank.rank() == 1) rank.compute(10s);
      all.submit({.name = "a", .type = DataType::int64, .count = 1}, Argument::in(mine), Argument::out(sum));
      const TimePoint called = rank.clock().now();
      const auto result = all.end_step(rank, rank.deadline(100s), kNothing);
      ASSERT_FALSE(result.ok()) << ordering;
      EXPECT_EQ(result.error().code, Errc::timeout) << result.error().message;
      EXPECT_THAT(result.error().message,
                  AllOf(HasSubstr("step 0, after 3 s: agreement "),
                        EndsWith(" of set 0 is not complete: rank 1 has not answered within 1 s")));
      if (rank.rank() != 1) {
        EXPECT_LT(rank.clock().now() - called, 5s);
        EXPECT_THAT(all.take_lines(), ElementsAre(StartsWith("step 0, after 1 s: agreement ")));
      }
    });
  }
}

TEST(AgreementWatch, SaysNothingOfRanksWhoseHelpersAnswerForThem) {
  for (const char* ordering : {"coordinator", "gs", "nbcs"}) {
    for (const auto& lines : lines_of(3, OrderingOptions::named(ordering), {}, late_in_step(1, 1, 30s))) {
      for (const std::string& line : lines) EXPECT_THAT(line, testing::Not(HasSubstr("agreement"))) << ordering;
    }
  }
}

TEST(AgreementWatch, SaysNothingWhereAllRanksComputeForLongOrTheWaitIsShort) {
  OrderingOptions options = OrderingOptions::named("coordinator");
  options.stall_warning = 2s;
  options.stall_abort = 4s;
  for (const auto& lines : lines_of(3, options, {0, 1, 2}, [&](VirtualRank&rank, OrderedAllreduce&all) {
         const std::vector<std::int64_t> mine{1};
         std::vector<std::int64_t> sum(1);
         for (int step = 0; step < 3; ++step) {
           rank.compute(30s + rank.rank() * 900ms);  // between two steps, and inside one
           all.begin_step({});
           all.submit({.name = "a", .type = DataType::int64, .count = 1}, Argument::in(mine), Argument::out(sum));
           rank.compute(30s);
           all.end_step(rank, rank.deadline(100s), kNothing).or_throw();
         }
         all.finish(rank, rank.deadline(100s), kNothing).or_throw();
       })) {
    EXPECT_THAT(lines, IsEmpty());
  }
}

}  // namespace
}  // namespace stretto
