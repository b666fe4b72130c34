// AD-PSGD and elastic averaging, in whole runs over a task without Torch, ranks as processes.

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "stretto/base/error.h"
#include "stretto/train/job/checkpoint.h"
#include "stretto/train/job/run.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

class PairAveragingTest : public testing::TestWithParam<const char*> {
 protected:
  PairAveragingTest() : folder_(std::filesystem::path(testing::TempDir()) / text("stretto_pairs_", ::getpid())) {
    ::alarm(100);
  }
  ~PairAveragingTest() override {
    ::alarm(0);
    std::filesystem::remove_all(folder_);
  }

  RunSummary run(const TrainOptions& options, const LinearTaskOptions& task = {}) {
    return run_training(options, *linear_task(task), {.progress = [](const RunProgress&) {}}).value();
  }
  ReplicaChecksum final_checksum(TrainOptions options) {
    options.out = (folder_ / text("final", runs_++)).string();
    options.checkpoint_every = 1'000'000;
    run(options);
    return read_checkpoint(options.out).checksum;
  }

  const std::filesystem::path folder_;
  int runs_ = 0;
};

TEST_P(PairAveragingTest, CountsEveryBatchAndEndsWithEqualReplicas) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    // 80 batches, of 1 ms each so that no rank is through before the others have begun.
    const RunSummary s = run({.algorithm = GetParam(), .ranks = ranks, .epochs = 5, .pace = 250us, .sync_every = 2});
    EXPECT_EQ(s.deposits.made, 80u) << ranks;
    EXPECT_EQ(s.deposits.applied, 80u) << ranks;
    EXPECT_TRUE(s.replicas_identical) << ranks;
    EXPECT_LT(*s.loss, 30) << "from 50, on " << ranks << "; late models hold back here";
  }
}

TEST_P(PairAveragingTest, EndsWhereRanksHaveMoreAndFewerBatchesAndSomeHaveNone) {
  for (const int ranks : {2, 3, 16}) {
    for (const std::uint64_t sync_every : {1, 3, 10}) {
      // Without a pace one rank may take nearly all batches.
      TrainOptions options{.algorithm = GetParam(), .ranks = ranks, .epochs = 2};
      options.data = "shared";
      options.imbalance = "persistent:rank=1,factor=3";
      options.sync_every = sync_every;
      const RunSummary s = run(options);
      EXPECT_EQ(s.deposits.applied, 32u) << ranks;
      EXPECT_TRUE(s.replicas_identical) << ranks;
    }
  }
}

TEST_P(PairAveragingTest, IsDrivenByTheApplicationAlone) {
  const RunSummary s = run({.algorithm = GetParam(), .ranks = 3, .epochs = 5, .progress_by = ProgressBy::application});
  EXPECT_EQ(s.deposits.applied, 80u);
  EXPECT_TRUE(s.replicas_identical);
}

TEST_P(PairAveragingTest, GoesOnFromACheckpoint) {
  TrainOptions options{.algorithm = GetParam(), .ranks = 3, .epochs = 2};
  options.checkpoint_every = 1'000'000;
  options.out = (folder_ / "first").string();
  const double first = run(options).loss.value();
  options.resume = options.out;
  options.epochs = 4;
  const RunSummary s = run(options);
  EXPECT_EQ(s.deposits.applied, 32u) << "more";
  EXPECT_LT(*s.loss, first);
  EXPECT_TRUE(s.replicas_identical);
}

INSTANTIATE_TEST_SUITE_P(All, PairAveragingTest, testing::Values("ad-psgd", "easgd", "easgd-async"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

class PairAveragingAlone : public PairAveragingTest {};

// All gradients are those of the weights that every rank begins with, whatever is exchanged meanwhile. Exchanges keep
// the mean, so it ends where one step of sync does.
TEST_F(PairAveragingAlone, PairsKeepTheMean) {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    TrainOptions options{.ranks = ranks, .steps = 1, .data = "partitioned"};
    const double sync = run(options).loss.value();
    options.algorithm = "ad-psgd";
    EXPECT_NEAR(run(options).loss.value(), sync, 1e-5 * sync) << ranks;
  }
}

TEST_F(PairAveragingAlone, OneRankDoesWhatLocalSgdDoes) {
  TrainOptions options{.algorithm = "local", .ranks = 1, .epochs = 2, .momentum = 0.9, .sync_every = 4};
  const ReplicaChecksum local = final_checksum(options);
  options.algorithm = "ad-psgd";
  EXPECT_EQ(final_checksum(options), local);
}

TEST_F(PairAveragingAlone, ElasticAveragingRepeatsToTheBit) {
  for (const int ranks : {2, 3, 5}) {
    const TrainOptions options{.algorithm = "easgd", .ranks = ranks, .epochs = 2, .momentum = 0.9, .sync_every = 3};
    EXPECT_EQ(final_checksum(options), final_checksum(options)) << ranks;
  }
}

TEST_F(PairAveragingAlone, ElasticAveragingWarnsOnceWhereModelsSwing) {
  for (const auto& [alpha, warnings] : {std::pair("0.2", 0), std::pair("0.3", 1)}) {
    const TrainOptions options{.algorithm = "easgd", .ranks = 4, .steps = 4, .algorithm_options = {{"alpha", alpha}}};
    int said = 0;
    const auto listen = [&said](const RunProgress& progress) {
      if (progress.notice.find("the models swing about the center") != std::string::npos) ++said;
    };
    (void)run_training(options, *linear_task(), {.progress = listen}).value();
    EXPECT_EQ(said, warnings) << alpha;
  }
}

TEST_F(PairAveragingAlone, TheCenterIsTheModelOfAllWhereCheckpointsAreMade) {
  for (const int ranks : {1, 2, 3, 5}) {
    TrainOptions options{.algorithm = "easgd-async", .ranks = ranks, .epochs = 5, .sync_every = 2};
    options.data = "shared";
    options.imbalance = ranks == 1 ? "none" : "persistent:rank=1,delay=1ms";
    options.evaluate_every = 20;
    options.algorithm_options = {{"full-every", "30"}};  // and so every 10
    options.out = (folder_ / text("center", ranks)).string();
    options.checkpoint_every = 20;
    const RunSummary s = run(options);
    EXPECT_TRUE(s.replicas_identical) << ranks << "; compared where checkpoints are made";
    EXPECT_EQ(s.deposits.applied, 80u) << ranks;
    EXPECT_GE(s.rounds, 8u) << ranks;
    EXPECT_GE(s.evaluations.size(), 3u) << ranks;
  }
}

TEST_F(PairAveragingAlone, SaysHowOftenOtherModelsHaveChangedOnesOwnMeanwhile) {
  for (const char* algorithm : {"ad-psgd", "easgd-async"}) {
    TrainOptions options{.algorithm = algorithm, .ranks = 4, .epochs = 5, .pace = 250us, .sync_every = 1};
    options.data = "shared";
    options.imbalance = "persistent:rank=1,delay=4ms";
    options.simulated = true;
    options.algorithm_options = {{"alpha", "0.2"}};
    if (std::string(algorithm) == "ad-psgd") options.sync_every = 0;
    const RunSummary s = run(options);
    // Two ranks ask rank 1 or 3, and rank 1 takes five times as long for a step as they do.
    EXPECT_GT(s.staleness_max, std::string(algorithm) == "ad-psgd" ? 1u : 0u) << algorithm;
    EXPECT_GT(s.staleness_mean, 0) << algorithm;
    EXPECT_LE(s.staleness_mean, static_cast<double>(s.staleness_max)) << algorithm;
    EXPECT_EQ(s.deposits.lost, 0u) << algorithm;
  }
}

// In virtual time exchanges come in the same order again, since ranks take unequal times.
TEST_F(PairAveragingAlone, AKilledElasticRunContinuesToTheBitFromItsCenter) {
  for (const int ranks : {1, 3}) {
    TrainOptions options{.algorithm = "easgd-async", .ranks = ranks, .epochs = 6, .momentum = 0, .pace = 1ms};
    options.data = "partitioned";
    options.imbalance = ranks == 1 ? "none" : "linear:0ms..3ms";
    options.sync_every = 2;
    options.simulated = true;
    options.checkpoint_every = 12;
    options.out = (folder_ / text("whole", ranks)).string();
    run(options);
    const Checkpoint whole = read_checkpoint(options.out);

    options.out = (folder_ / text("part", ranks)).string();
    const std::uint64_t last = 50 / static_cast<std::uint64_t>(ranks);
    const auto dies = linear_task({.before_batch = [last](std::uint64_t step) {
      if (step == last) ::raise(SIGKILL);
    }});
    EXPECT_THROW(run_training(options, *dies, {.progress = [](const RunProgress&) {}}), Failure);
    EXPECT_GE(read_checkpoint(options.out).batches, 36u);

    options.resume = options.out;
    options.out = (folder_ / text("rest", ranks)).string();
    run(options);
    EXPECT_EQ(read_checkpoint(options.out).checksum.parameters, whole.checksum.parameters) << ranks;
  }
}

// With alpha = 1/P and one step between rounds the first center is the mean of the models after it.
TEST_F(PairAveragingAlone, ElasticAveragingBeginsAsSyncDoesWhereTheCenterGoesAllTheWay) {
  TrainOptions options{.ranks = 4, .steps = 1, .data = "partitioned"};
  const double sync = run(options).loss.value();
  options.algorithm = "easgd";
  options.sync_every = 1;
  options.algorithm_options = {{"alpha", "0.25"}};
  EXPECT_NEAR(run(options).loss.value(), sync, 1e-5 * sync);
  options.algorithm_options = {{"alpha", "0.1"}, {"beta", "1"}};
  EXPECT_NEAR(run(options).loss.value(), sync, 1e-5 * sync);
  options.algorithm_options = {{"alpha", "0.25"}, {"beta", "0.5"}};
  EXPECT_GT(run(options).loss.value(), 1.01 * sync) << "half of the way";
}

}  // namespace
}  // namespace stretto
