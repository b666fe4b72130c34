// DiLoCo, and local SGD under a policy, as whole runs in processes.
#include <gmock/gmock.h>
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

namespace fs = std::filesystem;
using testing::HasSubstr;

class DilocoTest : public testing::Test {
 protected:
  DilocoTest() : root_(fs::path(testing::TempDir()) / text("stretto_diloco_", ::getpid())) {
    fs::remove_all(root_);
    ::alarm(100);
  }
  ~DilocoTest() override {
    ::alarm(0);
    fs::remove_all(root_);
  }

  std::string folder(const std::string& name) const { return (root_ / name).string(); }

  static RunSummary run(const TrainOptions& options, const TrainingTask& task = *linear_task()) {
    return run_training(options, task, {.progress = [](const RunProgress&) {}}).value();
  }

  // What a run ends with, to the bit.
  ReplicaChecksum final_checksum(TrainOptions options) {
    options.out = folder(text("final", runs_++));
    options.checkpoint_every = 1'000'000;
    run(options);
    return read_checkpoint(options.out).checksum;
  }

  static std::string complaint(const TrainOptions& options) {
    try {
      run(options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  const fs::path root_;
  int runs_ = 0;
};

TEST_F(DilocoTest, AppliesEveryBatchOnceAndLeavesEqualReplicasUnderAnyPolicy) {
  for (const char* algorithm : {"diloco", "diloco:quorum", "diloco:quorum:1", "diloco:solo", "diloco:majority",
                                "diloco:deadline:2,1ms", "local:quorum", "local:solo"}) {
    for (const int ranks : {1, 3, 4}) {
      if (ranks == 1 && std::string(algorithm) == "diloco:deadline:2,1ms") continue;
      TrainOptions options{.algorithm = algorithm, .ranks = ranks, .epochs = 10, .max_lag = 3, .sync_every = 3};
      options.imbalance = ranks == 1 ? "none" : "persistent:rank=1,delay=1ms";
      const RunSummary s = run(options);
      EXPECT_EQ(s.deposits.made, 160u) << algorithm << " on " << ranks;
      EXPECT_EQ(s.deposits.applied, 160u) << algorithm << " on " << ranks;
      EXPECT_TRUE(s.replicas_identical) << algorithm << " on " << ranks;
      EXPECT_LE(s.staleness_max, 3u) << algorithm << " on " << ranks;
      EXPECT_LT(*s.loss, 30) << algorithm << " on " << ranks << ", from 50; late pseudo-gradients overshoot here";
    }
  }
}

TEST_F(DilocoTest, WeightsThatAreKeptEndAsTheOuterModelToo) {
  for (const char* algorithm : {"diloco:solo", "diloco:quorum:2"}) {
    const RunSummary s = run({.algorithm = algorithm,
                              .ranks = 3,
                              .epochs = 10,
                              .imbalance = "persistent:rank=2,delay=1ms",
                              .sync_every = 2,
                              .algorithm_options = {{"keep", "yes"}, {"full-every", "40"}}});
    EXPECT_EQ(s.deposits.applied, 160u) << algorithm;
    EXPECT_TRUE(s.replicas_identical) << algorithm;
    EXPECT_THAT(s.ledger, HasSubstr("full"));
    EXPECT_LT(*s.loss, 30) << algorithm << ", from 50";
  }
}

TEST_F(DilocoTest, AtQuorumPHasTheBitsOfFull) {
  for (const int ranks : {2, 3, 4}) {
    TrainOptions options{.algorithm = "diloco",
                         .ranks = ranks,
                         .epochs = 3,
                         .momentum = 0.9,
                         .data = "partitioned",
                         .sync_every = 3,
                         .fixed_order = true};
    const ReplicaChecksum full = final_checksum(options);
    EXPECT_EQ(final_checksum(options).parameters, full.parameters) << "repeats";
    options.algorithm = text("diloco:quorum:", ranks);
    EXPECT_EQ(final_checksum(options).parameters, full.parameters) << ranks << " ranks";
  }
}

TEST_F(DilocoTest, WithOneStepRateOneAndNoMomentumIsSyncUpToRounding) {
  TrainOptions options{.ranks = 4, .epochs = 3, .data = "partitioned", .fixed_order = true};
  const double sync = run(options).loss.value();
  options.sync_every = 1;
  options.algorithm = "diloco";
  options.algorithm_options = {{"outer-lr", "1"}, {"outer-momentum", "0"}};
  EXPECT_NEAR(run(options).loss.value(), sync, 1e-5 * sync);
  options.normalize = Normalize::contributors;
  EXPECT_NEAR(run(options).loss.value(), sync, 1e-5 * sync) << "by phases, of which each rank brings one";
  options.normalize = Normalize::samples;
  EXPECT_NEAR(run(options).loss.value(), sync, 1e-5 * sync) << "by samples, of which each rank brings as many";
}

TEST_F(DilocoTest, AQuorumOfAllModelsIsTheAverageOfAll) {
  TrainOptions options{.algorithm = "local",
                       .ranks = 4,
                       .epochs = 4,
                       .momentum = 0.9,
                       .data = "partitioned",
                       .sync_every = 4,
                       .fixed_order = true};
  const double all = run(options).loss.value();
  options.algorithm = "local:quorum:4";
  EXPECT_NEAR(run(options).loss.value(), all, 1e-4 * all);
  options.normalize = Normalize::samples;
  EXPECT_NEAR(run(options).loss.value(), all, 1e-4 * all);
  options.algorithm_options = {{"post-local", "1000000"}};
  options.algorithm = "local";
  const double post_local = run(options).loss.value();
  options.algorithm = "local:quorum:4";
  EXPECT_NEAR(run(options).loss.value(), post_local, 1e-4 * post_local);
}

TEST_F(DilocoTest, AKilledRunContinuesToTheBitWithItsOuterMomentum) {
  for (const int ranks : {1, 3}) {
    TrainOptions options{.algorithm = "diloco",
                         .ranks = ranks,
                         .epochs = 6,
                         .momentum = 0,
                         .data = "partitioned",
                         .sync_every = 2,
                         .checkpoint_every = 12,
                         .out = folder(text("whole", ranks))};
    run(options);
    const Checkpoint whole = read_checkpoint(options.out);
    options.out = folder(text("part", ranks));
    const auto dies = linear_task({.before_batch = [ranks](std::uint64_t step) {
      if (step == 40 / static_cast<std::uint64_t>(ranks)) ::raise(SIGKILL);
    }});
    EXPECT_THROW(run(options, *dies), Failure);
    const Checkpoint part = read_checkpoint(options.out);
    EXPECT_GE(part.batches, 24u);
    EXPECT_TRUE(fs::exists(part.paths.recipe)) << part.paths.recipe;

    options.resume = options.out;
    options.out = folder(text("rest", ranks));
    run(options);
    EXPECT_EQ(read_checkpoint(options.out).checksum.parameters, whole.checksum.parameters) << ranks << " ranks";

    options.algorithm = "sync";
    options.sync_every = 0;
    options.out = folder(text("as_sync", ranks));
    EXPECT_EQ(run(options).deposits.made, 96 - part.batches) << "another algorithm leaves the outer momentum";
    EXPECT_EQ(read_checkpoint(options.out).paths.recipe, "");

    fs::resize_file(part.paths.recipe, 3);
    EXPECT_THAT(complaint(options), HasSubstr("truncated: 3 bytes"));
  }
}

TEST_F(DilocoTest, UnderAPolicyACheckpointIsWrittenAtAFullRound) {
  TrainOptions options{.algorithm = "diloco:solo",
                       .ranks = 3,
                       .epochs = 6,
                       .imbalance = "persistent:rank=1,delay=1ms",
                       .sync_every = 2,
                       .checkpoint_every = 24,
                       .out = folder("solo")};
  const auto dies = linear_task({.before_batch = [](std::uint64_t step) {
    if (step == 24) ::raise(SIGKILL);
  }});
  EXPECT_THROW(run(options, *dies), Failure);
  const Checkpoint part = read_checkpoint(options.out);
  options.resume = options.out;
  options.out = folder("rest");
  const RunSummary rest = run(options);
  EXPECT_EQ(rest.deposits.applied, 96 - part.batches);
  EXPECT_TRUE(rest.replicas_identical);
}

TEST_F(DilocoTest, RefusesBadInputInOneLine) {
  const auto with = [](const std::string& algorithm, AlgorithmOptions options) {
    return complaint({.algorithm = algorithm, .ranks = 4, .algorithm_options = std::move(options)});
  };
  EXPECT_THAT(with("diloco", {{"outer-momentum", "1"}}), HasSubstr("outer-momentum 1: expected a number from 0"));
  EXPECT_THAT(with("diloco", {{"outer-lr", "0"}}), HasSubstr("outer-lr 0: expected a number above 0"));
  EXPECT_THAT(with("diloco", {{"keep", "yes"}}), HasSubstr("keep yes with algorithm 'diloco', of which every round"));
  EXPECT_THAT(with("diloco", {{"full-every", "9"}}), HasSubstr("full-every 9 with algorithm 'diloco'"));
  EXPECT_EQ(with("diloco", {{"keep", "no"}}), "");
  EXPECT_THAT(with("diloco:quorum:5", {}), HasSubstr("5"));
  EXPECT_THAT(with("diloco:", {}), HasSubstr("expected diloco[:POLICY]"));
  EXPECT_THAT(with("local:sometimes", {}), HasSubstr("sometimes"));
  EXPECT_THAT(complaint({.algorithm = "diloco:solo", .ranks = 4, .delivery = "latest"}), HasSubstr("delivery latest"));
}

}  // namespace
}  // namespace stretto
