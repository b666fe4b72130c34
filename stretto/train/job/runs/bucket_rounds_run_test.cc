// `rounds` per-bucket: each bucket of gradients has rounds of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "stretto/train/job/checkpoint.h"
#include "stretto/train/job/run.h"
#include "stretto/train/job/run_plan.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;

const AlgorithmOptions kPerBucket{{"rounds", "per-bucket"}};

class BucketRoundsRunTest : public testing::Test {
 protected:
  BucketRoundsRunTest() : folder_(fs::path(testing::TempDir()) / text("stretto_bucket_rounds_", ::getpid())) {
    ::alarm(100);
  }
  ~BucketRoundsRunTest() override {
    ::alarm(0);
    fs::remove_all(folder_);
  }

  RunSummary run(TrainOptions options, const TrainingTask& task = *linear_task()) {
    notices_.clear();
    const RunHooks hooks{.progress = [this](const RunProgress& progress) {
      if (!progress.notice.empty()) notices_ += progress.notice + "\n";
    }};
    return run_training(options, task, hooks).value();
  }
  /// What a run ends with, to the bit. It has a checkpoint at a full round in the middle.
  ReplicaChecksum final_checksum(TrainOptions options) {
    options.out = (folder_ / text("run", runs_++)).string();
    options.checkpoint_every = 16;
    EXPECT_TRUE(run(options).replicas_identical) << options.algorithm;
    return read_checkpoint(options.out).checksum;
  }

  const fs::path folder_;
  std::string notices_;
  int runs_ = 0;
};

TEST_F(BucketRoundsRunTest, AppliesEveryBatchOnceAndLeavesEqualReplicas) {
  constexpr Normalize kDivisors[] = {Normalize::ranks, Normalize::contributors, Normalize::samples};
  int runs = 0;
  for (const char* algorithm : {"eager-solo", "eager-quorum", "eager-majority", "eager-deadline:1,1ms"}) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      for (const int seats : {0, 1}) {
        // 80 batches of lengths that differ, which ranks share as they come: each makes another number of them.
        const RunSummary s = run({.algorithm = algorithm,
                                  .ranks = ranks,
                                  .epochs = 5,
                                  .momentum = 0.5,
                                  .imbalance = "lognormal:mean=300us,cv=1",
                                  .seed = static_cast<std::uint64_t>(runs),
                                  .max_lag = 3,
                                  .seats = seats,
                                  .normalize = kDivisors[runs % 3],
                                  .algorithm_options = kPerBucket},
                                 *linear_task({.varied = true}));
        const std::string what = text(algorithm, " on ", ranks, " with seats ", seats, ", run ", runs++);
        EXPECT_EQ(s.deposits.made, s.deposits.applied) << what;
        EXPECT_EQ(s.deposits.lost, 0u) << what;
        EXPECT_TRUE(s.replicas_identical) << what;
        EXPECT_LE(s.staleness_max, 3u) << what;
        EXPECT_LT(*s.loss, 8) << what << ", from 50";
      }
    }
  }
}

TEST_F(BucketRoundsRunTest, DepositsDuringTheBackwardPassLoseNothing) {
  for (const char* algorithm : {"eager-solo", "eager-quorum"}) {
    const RunSummary s = run({.algorithm = algorithm, .ranks = 4, .epochs = 5, .algorithm_options = kPerBucket});
    EXPECT_EQ(s.deposits.applied, 80u) << algorithm;
    EXPECT_TRUE(s.replicas_identical) << algorithm;
  }
}

TEST_F(BucketRoundsRunTest, OfAllRanksEqualOneRoundAStepToTheBit) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const std::uint64_t seed : {1u, 2u}) {
      TrainOptions options{.algorithm = text("eager-quorum:", ranks),
                           .ranks = ranks,
                           .epochs = 3,
                           .momentum = 0.9,
                           .data = "partitioned",
                           .seed = seed,
                           .fixed_order = true};
      const ReplicaChecksum one = final_checksum(options);
      options.algorithm_options = kPerBucket;
      EXPECT_EQ(final_checksum(options), one) << ranks << " ranks";
      options.seats = 1;
      EXPECT_EQ(final_checksum(options), one) << ranks << " ranks, by messages";
      options.imbalance = "lognormal:mean=100us,cv=1";
      EXPECT_EQ(final_checksum(options), one) << ranks << " ranks, deposited after the backward pass";
    }
  }
}

TEST_F(BucketRoundsRunTest, RunOnTheVirtualClock) {
  for (const char* algorithm : {"eager-solo", "eager-quorum", "eager-majority"}) {
    for (const int ranks : {2, 3, 5}) {
      TrainOptions options{.algorithm = algorithm,
                           .ranks = ranks,
                           .epochs = 5,
                           .imbalance = "lognormal:mean=2ms,cv=1",
                           .pace = 1ms,
                           .algorithm_options = kPerBucket,
                           .simulated = true,
                           .network = "latency=20us,bandwidth=1MB/s,jitter=30us"};
      const RunSummary s = run(options);
      EXPECT_EQ(s.deposits.applied, 80u) << algorithm << " on " << ranks;
      EXPECT_TRUE(s.replicas_identical) << algorithm << " on " << ranks;
      EXPECT_EQ(final_checksum(options), final_checksum(options)) << algorithm << " on " << ranks;
    }
  }
}

TEST_F(BucketRoundsRunTest, SayThatAGradientMayBeInTwoRoundsAndHowOftenItWas) {
  run({.algorithm = "eager-solo", .ranks = 3, .epochs = 5, .algorithm_options = kPerBucket});
  EXPECT_THAT(notices_, HasSubstr("rounds per-bucket: each of 2 buckets of gradients has rounds of its own"));
  EXPECT_THAT(notices_, HasSubstr(" rounds the buckets have summed gradients of different batches"));
  run({.algorithm = "eager-quorum:2", .ranks = 2, .epochs = 5, .algorithm_options = kPerBucket});
  EXPECT_THAT(notices_, HasSubstr("in 0 of "));
}

TEST_F(BucketRoundsRunTest, RefuseWhatDoesNotFit) {
  const auto refusal = [](TrainOptions options) -> std::string {
    options.algorithm = "eager-quorum";
    options.algorithm_options = kPerBucket;
    try {
      plan_run(options, linear_task()->facts());
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({.delivery = "latest"}), "rounds per-bucket with delivery latest: expected every");
  EXPECT_EQ(refusal({.seats = 2}),
            "rounds per-bucket with seats 2: expected 1, or none at all for one board of all ranks");
  EXPECT_EQ(refusal({.seats = 4}), "");
}

}  // namespace
}  // namespace stretto
