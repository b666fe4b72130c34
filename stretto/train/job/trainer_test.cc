#include "stretto/train/job/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "stretto/membership/rank_over_transport.h"
#include "stretto/train/testing/test_task.h"
#include "stretto/transport/job_memory.h"
#include "stretto/transport/shm.h"

namespace stretto {
namespace {

using testing::HasSubstr;

// Trains in threads of this process, so that sanitizers see all ranks at once.
class TrainerTest : public testing::Test {
 protected:
  std::vector<RankReport> train(const RunPlan& plan, const std::vector<const TrainingTask*>& tasks,
                                Duration silence = std::chrono::seconds(10)) {
    const int ranks = plan.options.ranks;
    JobMemory memory = JobMemory::create(ranks).or_throw();
    memory.set_watched();
    std::atomic<std::uint64_t> counted{0};
    MemoryCounter counter(counted);
    const SteadyClock clock;
    std::vector<RankReport> reports(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        RankReport& report = reports[static_cast<std::size_t>(rank)];
        const auto task = tasks[static_cast<std::size_t>(rank) % tasks.size()]->start_rank(
            {.seed = static_cast<std::uint64_t>(rank),
             .lr = plan.options.lr,
             .momentum = rank == 1 ? differing_momentum_ : plan.options.momentum});
        {
          ShmTransport transport(memory, rank);
          RankOverTransport context(transport, clock, nullptr, std::span(&counter, 1));
          try {
            Trainer trainer({.plan = plan, .task = *task, .rank = context, .page = *page_, .silence = silence});
            report = trainer.run();
          } catch (const UsageError& error) {
            report.usage_error = true;
            report.error = Error{Errc::bad_input, error.what()};
          } catch (const Failure& failure) {
            report.error = failure.error();
          }
        }
        memory.leave(rank);
        checksums_[static_cast<std::size_t>(rank)] = task->replica().checksum();
      });
    }
    for (auto& thread : threads) thread.join();
    return reports;
  }

  static RunPlan plan(TrainOptions options) { return plan_run(options, linear_task()->facts()); }

  double differing_momentum_ = 0;  // of rank 1
  SharedProgressPage page_;
  std::array<ReplicaChecksum, 8> checksums_;
};

TEST_F(TrainerTest, ReplicasBeginAndEndEqual) {
  const auto task = linear_task();
  for (const char* algorithm : {"sync", "eager-solo", "eager-quorum", "local", "wagma", "wagma-quorum:2"}) {
    const auto reports = train(plan({.algorithm = algorithm, .ranks = 4, .epochs = 3}), {task.get()});
    for (std::size_t rank = 0; rank < 4; ++rank) {
      EXPECT_FALSE(reports[rank].error) << reports[rank].error->message;
      EXPECT_TRUE(reports[rank].identical);
      EXPECT_EQ(checksums_[rank].parameters, checksums_[0].parameters) << algorithm << ", though seeds differ";
    }
    ASSERT_TRUE(reports[0].totals);
    EXPECT_EQ(reports[0].totals->batches, 48u);
    EXPECT_EQ(reports[0].totals->lost_deposits, 0);
    EXPECT_FALSE(reports[1].totals);
  }
  EXPECT_EQ(page_->batches(), 48u);
}

TEST_F(TrainerTest, SaysWhomARoundWaitsFor) {
  const auto quick = linear_task();
  std::string line;
  const auto waits = linear_task({.before_batch = [&](std::uint64_t step) {
    // Until a rank has said that this one is missing, however long that takes. Of round 2 that may have been said, too.
    while (step == 3 && line.find("round 3 (full) waits for rank 1 (computing)") == std::string::npos) {
      line = page_->take_line().value_or("");
      std::this_thread::yield();
    }
  }});
  train(plan({.ranks = 3, .epochs = 2}), {quick.get(), waits.get(), quick.get()}, std::chrono::milliseconds(20));
  EXPECT_THAT(line, HasSubstr("round 3 (full) waits for rank 1 (computing)"));
}

TEST_F(TrainerTest, RanksWithDifferentModelsAreToldSoBeforeAnythingIsReduced) {
  const auto five = linear_task();
  const auto six = linear_task({.features = 6});
  const auto reports = train(plan({.ranks = 2, .epochs = 1}), {five.get(), six.get()});
  for (const RankReport& report : reports) {
    ASSERT_TRUE(report.error);
    EXPECT_TRUE(report.usage_error);
    EXPECT_THAT(report.error->message, HasSubstr("rank 1 differs from rank 0 in its model: on rank 1 it is"));
    EXPECT_EQ(report.error->message.find('\n'), std::string::npos);
  }
}

TEST_F(TrainerTest, RanksWithDifferentOptimizersAreToldSo) {
  const auto task = linear_task();
  differing_momentum_ = 0.5;
  const auto reports = train(plan({.ranks = 2, .epochs = 1}), {task.get()});
  for (const RankReport& report : reports) {
    ASSERT_TRUE(report.error);
    EXPECT_THAT(report.error->message, HasSubstr("rank 1 differs from rank 0 in its optimizer"));
    EXPECT_THAT(report.error->message, HasSubstr("momentum="));
  }
}

}  // namespace
}  // namespace stretto
