#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "stretto/observe/trace.h"
#include "stretto/train/job/checkpoint.h"
#include "stretto/train/job/run.h"
#include "stretto/train/job/summary_json.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;

/// Seconds of the processor that the processes of the runs so far have had.
double processor_time() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kMany = 128;
#else
constexpr int kMany = 1024;
#endif

class SimulatedRunTest : public testing::Test {
 protected:
  SimulatedRunTest() : folder_(fs::path(testing::TempDir()) / text("stretto_simulated_", ::getpid())) { ::alarm(100); }
  ~SimulatedRunTest() override {
    ::alarm(0);
    fs::remove_all(folder_);
  }

  static TrainOptions simulated(TrainOptions options) {
    options.simulated = true;
    if (options.pace == Duration(0)) options.pace = 1ms;
    return options;
  }
  RunSummary run(const TrainOptions& options, const TrainingTask& task = *linear_task()) {
    const RunHooks quiet{.progress = [](const RunProgress&) {}};
    return run_training(simulated(options), task, quiet).value();
  }
  /// The summary as a file, and the weights at the end.
  std::pair<std::string, ReplicaChecksum> all_of(TrainOptions options, const TrainingTask& task = *linear_task()) {
    options.out = (folder_ / text("run", runs_++)).string();
    options.checkpoint_every = 1'000'000;
    const std::string summary = to_json(run(options, task));
    return {summary, read_checkpoint(options.out).checksum};
  }

  const fs::path folder_;
  int runs_ = 0;
};

TEST_F(SimulatedRunTest, AppliesEveryBatchOnceAndLeavesEqualReplicas) {
  for (const char* algorithm :
       {"sync", "eager-solo", "eager-majority", "eager-quorum", "eager-deadline:2,1ms", "local"}) {
    for (const int ranks : {2, 3, 5}) {
      const RunSummary s = run({.algorithm = algorithm, .ranks = ranks, .epochs = 5, .max_lag = 3});
      const std::string what = text(algorithm, " on ", ranks);
      EXPECT_EQ(s.deposits.made, 80u) << what;
      EXPECT_EQ(s.deposits.applied, 80u) << what;
      EXPECT_TRUE(s.replicas_identical) << what;
      EXPECT_LE(s.staleness_max, 3u) << what;
      EXPECT_LT(*s.loss, 5) << what << ", from 50";
      EXPECT_TRUE(s.simulated);
      EXPECT_GT(s.throughput, 0.5 * ranks * 1000 / 4) << what << ", of steps of four rows";
      EXPECT_LE(s.throughput, 1.001 * ranks * 1000 / 4) << what;
    }
  }
}

TEST_F(SimulatedRunTest, RepeatsToTheBitOnAnyNumberOfCores) {
  const auto task = linear_task({.varied = true});
  for (const char* algorithm : {"sync", "eager-solo", "eager-quorum", "local", "wagma", "wagma-quorum"}) {
    TrainOptions options{.algorithm = algorithm,
                         .ranks = 5,
                         .epochs = 5,
                         .momentum = 0.5,
                         .imbalance = "lognormal:mean=2ms,cv=1",
                         .network = "latency=20us,bandwidth=1MB/s,jitter=30us",
                         .compute_threads = 1};
    const auto once = all_of(options, *task);
    EXPECT_EQ(once, all_of(options, *task)) << algorithm;
    options.compute_threads = 2;
    EXPECT_EQ(once, all_of(options, *task)) << algorithm << " on two cores";
    options.compute_threads = 5;
    EXPECT_EQ(once, all_of(options, *task)) << algorithm << " on five cores";
    options.seed = 2;
    EXPECT_NE(once, all_of(options, *task)) << algorithm << " with another seed";
  }
}

TEST_F(SimulatedRunTest, ASynchronousStepTakesThePaceAndTheAllreduce) {
  // Two ranks, batches of four rows at 1 ms each. A small bucket takes one message each way, which costs its sender 1
  // µs and then travels for 10; there are two, one after the other. Bytes take no time in whole nanoseconds.
  TrainOptions options{.ranks = 2, .steps = 50, .network = "latency=10us,bandwidth=1000000GB/s,overhead=1us"};
  EXPECT_DOUBLE_EQ(run(options).wall_seconds, 50 * seconds(4ms + 2 * (1us + 10us)));
  // A large bucket takes two messages each way, of half its bytes each: 50 ns.
  options.no_gradients = true;
  options.model_bytes = 100'000'000;
  EXPECT_DOUBLE_EQ(run(options).wall_seconds, 50 * seconds(4ms + 2 * (1us + 10us + 50ns)));
  // And 5 ms at a bandwidth as networks have it; an envelope and the header of the round are beside.
  options.network = "latency=10us,bandwidth=10GB/s,overhead=1us";
  const double exact = 50 * seconds(4ms + 2 * (1us + 10us + 5ms));
  EXPECT_GT(run(options).wall_seconds, exact);
  EXPECT_LT(run(options).wall_seconds, exact + 50 * seconds(100ns));
}

TEST_F(SimulatedRunTest, TheAllreduceOfManyRanksMovesEachByteTwice) {
  TrainOptions options{.ranks = 16,
                       .steps = 10,
                       .network = "latency=1us,bandwidth=10GB/s,overhead=0",
                       .no_gradients = true,
                       .model_bytes = 100'000'000};
  // 2 log2 P messages a rank, and 2 (P − 1) / P of the bytes.
  const double exact = 10 * (4e-3 + 8 * 1e-6 + 2 * 15.0 / 16 * 1e-2);
  EXPECT_NEAR(run(options).wall_seconds, exact, 1e-4 * exact);
}

TEST_F(SimulatedRunTest, SoloReachesTheIdealBesideASlowRank) {
  const TrainOptions options{
      .algorithm = "eager-solo", .ranks = 8, .steps = 100, .imbalance = "persistent:rank=3,factor=3"};
  const RunSummary s = run(options);
  EXPECT_GT(s.throughput * s.ideal_seconds / 800, 0.97);
  TrainOptions sync = options;
  sync.algorithm = "sync";
  EXPECT_NEAR(run(sync).throughput * s.sync_ideal_seconds / 800, 1, 0.01);
}

TEST_F(SimulatedRunTest, ManyRanksTakeSecondsOfOneCore) {
  const auto task = linear_task({.samples = 1 << 18});
  TrainOptions options{.no_gradients = true, .model_bytes = 102'400'000};
  const auto check = [&](const char* algorithm, int ranks, std::uint64_t steps) {
    options.algorithm = algorithm;
    options.ranks = ranks;
    options.steps = steps;
    const double begin = processor_time();
    const RunSummary s = run(options, *task);
    EXPECT_EQ(s.deposits.applied, steps * static_cast<std::uint64_t>(ranks));
    EXPECT_FALSE(s.loss.has_value() && std::isfinite(*s.loss));
    EXPECT_LT(processor_time() - begin, 100) << algorithm << " on " << ranks;
  };
  for (const char* algorithm : {"sync", "eager-quorum", "local"}) check(algorithm, 64, 50);
  check("sync", kMany, 2);
}

TEST_F(SimulatedRunTest, KeepsRecordsAndTracesInVirtualTime) {
  TrainOptions options{.ranks = 3, .epochs = 1, .imbalance = "linear:1ms..3ms", .out = (folder_ / "kept").string()};
  run(options);
  std::ifstream file(folder_ / "kept" / "records-2.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const auto record = nlohmann::json::parse(line);
  EXPECT_DOUBLE_EQ(record.at("paced"), 4e-3) << line;
  EXPECT_DOUBLE_EQ(record.at("delayed"), 3e-3) << line;
  EXPECT_DOUBLE_EQ(record.at("computed"), 0) << line;
  EXPECT_TRUE(fs::exists(folder_ / "kept" / "trace.json"));
  EXPECT_TRUE(nlohmann::json::parse(std::ifstream(folder_ / "kept" / "summary.json")).at("simulated"));
}

TEST_F(SimulatedRunTest, ContinuesFromACheckpoint) {
  TrainOptions options{.algorithm = "sync", .ranks = 4, .epochs = 2, .checkpoint_every = 16};
  options.out = (folder_ / "whole").string();
  run(options);
  options.out = (folder_ / "part").string();
  options.epochs = 1;
  run(options);
  options.resume = options.out;
  options.epochs = 2;
  run(options);
  EXPECT_EQ(read_checkpoint((folder_ / "whole").string()).checksum, read_checkpoint(options.out).checksum);
}

TEST_F(SimulatedRunTest, NamesTheRankWhoseGradientIsNotFinite) {
  for (const int threads : {1, 2}) {
    try {
      run({.ranks = 3, .epochs = 2, .compute_threads = threads}, *linear_task({.poisoned = 5}));
      ADD_FAILURE();
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().code, Errc::aborted);
      EXPECT_THAT(failure.what(), HasSubstr("is not finite on rank"));
    }
  }
}

TEST_F(SimulatedRunTest, TakesOptionsAsARealRunDoes) {
  const TrainOptions options{.algorithm = "eager-quorum", .ranks = 5, .epochs = 5, .imbalance = "linear:0ms..8ms"};
  TrainOptions by_application = options;
  by_application.progress_by = ProgressBy::application;
  EXPECT_LT(run(by_application).throughput, 0.95 * run(options).throughput) << "who computes holds up the others";
  TrainOptions latest = options;
  latest.delivery = "latest";
  latest.sync_every = 20;
  EXPECT_EQ(run(latest).deposits.lost, 0u);
}

TEST_F(SimulatedRunTest, UnderDeliveryLatestSaysWhatReplicasHavePassedOver) {
  TrainOptions options{.algorithm = "eager-solo", .ranks = 4, .epochs = 8, .imbalance = "persistent:rank=1,delay=9ms"};
  EXPECT_EQ(run(options).deposits.passed_over, 0) << "every result is applied";
  options.delivery = "latest";
  options.sync_every = 24;
  options.out = (folder_ / "latest").string();
  const RunSummary s = run(options);
  double applied = 0;  // by the replicas, each what it was handed
  const auto take = [&](const HandedRound& handed) {
    applied += static_cast<double>(handed.round.batches) / options.ranks;
  };
  ASSERT_EQ(read_traced_rounds(options.out + "/trace.json", take).or_throw(), LinesFound::all);
  EXPECT_EQ(s.deposits.applied, 128u);
  EXPECT_LT(applied, 120) << "the late rank is handed the newest alone";
  EXPECT_DOUBLE_EQ(s.deposits.passed_over, 128 - applied);
  EXPECT_THAT(s.ledger, HasSubstr(" of them passed over by a replica on average, 0 pending, 0 lost"));
}

TEST_F(SimulatedRunTest, ALongStepIsNoNews) {
  std::string notices;
  const RunHooks hooks{.progress = [&](const RunProgress& progress) { notices += progress.notice; }};
  const TrainOptions options{.ranks = 3, .steps = 2, .imbalance = "persistent:rank=1,delay=600s"};
  run_training(simulated(options), *linear_task(), hooks);
  EXPECT_EQ(notices.find("waits for"), std::string::npos) << notices;
}

TEST_F(SimulatedRunTest, RefusesOptionsThatDoNotFit) {
  const auto refused = [](TrainOptions options) {
    try {
      resolved(options, linear_task()->facts());
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  const auto with = [](auto change) {
    TrainOptions options{.ranks = 4, .pace = 1ms, .simulated = true};
    change(options);
    return options;
  };
  EXPECT_EQ(refused(with([](auto&) {})), "taken");
  EXPECT_THAT(refused({.network = "latency=1us"}), HasSubstr("network latency=1us: expected a simulated run"));
  EXPECT_THAT(refused({.no_gradients = true}), HasSubstr("expected a simulated run"));
  EXPECT_THAT(refused({.compute_threads = 2}), HasSubstr("expected a simulated run"));
  EXPECT_THAT(refused(with([](auto& o) { o.pace = Duration(0); })), HasSubstr("pace 0s: expected a time"));
  EXPECT_THAT(refused(with([](auto& o) { o.seats = 2; })), HasSubstr("seats 2: expected 1"));
  EXPECT_THAT(refused(with([](auto& o) { o.network = "latency=1"; })), HasSubstr("'latency=1': expected"));
  EXPECT_THAT(refused(with([](auto& o) { o.model_bytes = 5; })), HasSubstr("expected a run without gradients"));
  EXPECT_THAT(refused(with([](auto& o) { o.model_buckets = 5; })), HasSubstr("expected a run without gradients"));
  for (const int buckets : {0, kMostModelBuckets + 1}) {
    EXPECT_THAT(refused(with([&](auto& o) { o.no_gradients = true, o.model_buckets = buckets; })),
                HasSubstr("expected a whole number from 1 to 32"));
  }
}

}  // namespace
}  // namespace stretto
