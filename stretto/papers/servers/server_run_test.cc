#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>

#include "stretto/base/error.h"
#include "stretto/papers/servers/server.h"
#include "stretto/train/job/checkpoint.h"
#include "stretto/train/job/run.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ServerRuns : public testing::Test {
 protected:
  ServerRuns() : folder_(fs::path(testing::TempDir()) / text("stretto_server_", ::getpid())) { ::alarm(100); }
  ~ServerRuns() override {
    ::alarm(0);
    fs::remove_all(folder_);
  }

  /// Four ranks by default, partitioned data, plain SGD.
  static TrainOptions options(const std::string& algorithm, int ranks = 4) {
    TrainOptions options{.algorithm = algorithm, .ranks = ranks, .epochs = 3};
    options.data = "partitioned";
    options.momentum = 0;
    return options;
  }

  RunSummary run(TrainOptions options) {
    options.out = (folder_ / text(runs_++)).string();
    options.checkpoint_every = 1'000'000;
    return run_training(options, *linear_task(), {}).value();
  }

  Checkpoint end_of_last_run() const { return read_checkpoint((folder_ / text(runs_ - 1)).string()); }
  std::uint64_t batches_of_last_run() const { return end_of_last_run().batches; }

  /// The weights at the end of a run.
  std::vector<float> weights_after(TrainOptions options) {
    run(options);
    const Checkpoint end = end_of_last_run();
    const auto task = linear_task();
    const auto rank = task->start_rank({});
    rank->replica().load(read_whole_file(end.paths.replica, FileContent::bytes).or_throw());
    std::vector<float> weights;
    for (int b = 0; b < 2; ++b) {
      const auto bytes = rank->replica().parameters(b);
      const auto* first = reinterpret_cast<const float*>(bytes.data());
      weights.insert(weights.end(), first, first + bytes.size() / sizeof(float));
    }
    return weights;
  }

  static void expect_near(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i], b[i], 1e-6 * std::max(1.0f, std::abs(b[i]))) << what << ", element " << i;
    }
  }

  static std::string complaint(const TrainOptions& options) {
    try {
      run_training(options, *linear_task(), {.progress = [](const RunProgress&) {}});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  static std::string refusal(TrainOptions options) {
    try {
      plan_run(options, linear_task()->facts());
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  const fs::path folder_;
  int runs_ = 0;
};

TEST_F(ServerRuns, SyncAndSspWithoutStalenessAreSyncUpToRounding) {
  for (const int ranks : {1, 2, 3, 4}) {
    const auto sync = weights_after(options("sync", ranks));
    expect_near(weights_after(options("ps-sync", ranks)), sync, text("ps-sync, ", ranks, " ranks"));
    expect_near(weights_after(options("ssp:0", ranks)), sync, text("ssp:0, ", ranks, " ranks"));
  }
}

TEST_F(ServerRuns, MomentumIsThatOfSync) {
  TrainOptions sync = options("sync"), server = options("ps-sync");
  sync.momentum = server.momentum = 0.9;
  expect_near(weights_after(server), weights_after(sync), "momentum 0.9");
}

TEST_F(ServerRuns, KSyncOfAllRanksIsSyncToTheBit) {
  TrainOptions sync = options("ps-sync"), k_sync = options("k-sync:4");
  sync.momentum = k_sync.momentum = 0.9;
  EXPECT_EQ(weights_after(k_sync), weights_after(sync));
}

TEST_F(ServerRuns, NeitherServersNorLayersChangeWhatSyncGives) {
  const auto all = weights_after(options("ps-sync"));
  for (const auto& [name, value] : {std::pair("servers", "1"), {"servers", "2"}, {"layerwise", "no"}}) {
    TrainOptions other = options("ps-sync");
    other.algorithm_options.set(name, value);
    EXPECT_EQ(weights_after(other), all) << name << ' ' << value;
  }
  TrainOptions simulated = options("ps-sync");
  simulated.simulated = true;
  simulated.pace = std::chrono::milliseconds(1);
  for (const char* layerwise : {"yes", "no"}) {
    simulated.algorithm_options.set("layerwise", layerwise);
    EXPECT_EQ(weights_after(simulated), all) << "simulated, layerwise " << layerwise;
  }
}

TEST_F(ServerRuns, EveryModeCountsEveryBatchAndEndsWithEqualReplicas) {
  for (const char* algorithm : {"ps-sync", "ps-async", "ssp:0", "ssp:2", "k-sync:3"}) {
    const RunSummary summary = run(options(algorithm));
    EXPECT_TRUE(summary.replicas_identical) << algorithm;
    EXPECT_EQ(batches_of_last_run(), 48u) << algorithm;
    TrainOptions shared = options(algorithm);
    shared.data = "shared";
    shared.imbalance = "persistent:rank=1,factor=3";
    run(shared);
    EXPECT_EQ(batches_of_last_run(), 48u) << algorithm;
  }
}

TEST_F(ServerRuns, DedicatedServersTakeNoBatches) {
  for (const char* algorithm : {"ps-sync", "ps-async", "ssp:1", "k-sync:2"}) {
    TrainOptions dedicated = options(algorithm);
    dedicated.data = "shared";
    dedicated.algorithm_options.set("servers", "dedicated:1");
    EXPECT_TRUE(run(dedicated).replicas_identical) << algorithm;
    EXPECT_EQ(batches_of_last_run(), 48u) << algorithm;
  }
}

TEST_F(ServerRuns, FullRoundsChangeNoBitOfSync) {
  for (const int ranks : {1, 3, 4}) {
    TrainOptions never = options("ps-sync", ranks);
    never.momentum = 0.9;
    const auto weights = weights_after(never);
    for (const char* servers : {"", "1", "2"}) {
      if (ranks == 1 && *servers == '2') continue;
      TrainOptions often = never;
      often.sync_every = 3;
      if (*servers != 0) often.algorithm_options.set("servers", servers);
      EXPECT_EQ(weights_after(often), weights) << ranks << " ranks, servers " << servers;
    }
  }
}

TEST_F(ServerRuns, RanksMeetWhateverNumberOfBatchesEachHas) {
  for (const char* algorithm : {"ps-sync", "ps-async", "ssp:0", "ssp:2", "k-sync:2"}) {
    for (const char* servers : {"4", "1", "dedicated:2"}) {
      TrainOptions meets = options(algorithm);
      meets.data = "shared";
      meets.momentum = 0.5;
      meets.imbalance = "persistent:rank=1,delay=2ms";
      meets.sync_every = 3;
      meets.evaluate_every = 6;
      meets.out = (folder_ / text("meets", runs_++)).string();
      meets.checkpoint_every = 6;
      meets.algorithm_options.set("servers", servers);
      const RunSummary s = run_training(meets, *linear_task(), {.progress = [](const RunProgress&) {}}).value();
      const auto what = text(algorithm, ", servers ", servers);
      EXPECT_TRUE(s.replicas_identical) << what << "; compared where checkpoints are made";
      EXPECT_EQ(read_checkpoint(meets.out).batches, 48u) << what;
      // A rank makes at most 3 of the 48 batches between two rounds, and so do 4 ranks at most 12.
      EXPECT_GE(s.rounds, 4u) << what;
      EXPECT_GE(s.evaluations.size(), 3u) << what;
    }
  }
}

TEST_F(ServerRuns, AreAccountedForByWhatServersHaveTakenAndDropped) {
  for (const bool simulated : {false, true}) {
    for (const char* algorithm : {"ps-sync", "ps-async", "ssp:2", "k-sync:3"}) {
      TrainOptions late = options(algorithm);
      late.data = "shared";
      late.imbalance = "persistent:rank=1,delay=5ms";
      late.pace = std::chrono::microseconds(250);  // of 4 samples: 1 ms a batch
      late.simulated = simulated;
      const RunSummary s = run(late);
      const auto what = text(algorithm, simulated ? ", virtual" : "");
      EXPECT_EQ(s.deposits.made, 48u) << what;
      EXPECT_EQ(s.deposits.applied + s.deposits.dropped, 48u) << what;
      EXPECT_EQ(s.deposits.lost, 0u) << what;
      EXPECT_DOUBLE_EQ(s.throughput * s.wall_seconds, static_cast<double>(s.deposits.applied)) << what;
      const bool drops = std::string(algorithm) == "k-sync:3";
      EXPECT_EQ(s.deposits.dropped > 0, drops) << what;
      const bool waits_for_all = std::string(algorithm) == "ps-sync";
      EXPECT_EQ(s.staleness_max > 0, !drops && !waits_for_all) << what;
      EXPECT_EQ(s.staleness_mean > 0, s.staleness_max > 0) << what;
      if (std::string(algorithm) == "ssp:2") {
        EXPECT_LE(s.staleness_max, 15u) << what << ": (2·2 + 1)(4 − 1)";
      }
      EXPECT_EQ(s.ledger.find("dropped") != std::string::npos, drops) << s.ledger;
    }
  }
}

TEST_F(ServerRuns, AKilledRunContinuesToTheBitWithItsMomentum) {
  for (const char* servers : {"3", "1"}) {
    TrainOptions options = this->options("ps-sync", 3);
    options.momentum = 0.9;
    options.epochs = 6;
    options.sync_every = 4;
    options.checkpoint_every = 12;
    options.algorithm_options.set("servers", servers);
    const std::string name = text("servers", servers);
    options.out = (folder_ / (name + "whole")).string();
    const RunHooks quiet{.progress = [](const RunProgress&) {}};
    run_training(options, *linear_task(), quiet);
    const Checkpoint whole = read_checkpoint(options.out);

    options.out = (folder_ / (name + "part")).string();
    const auto dies = linear_task({.before_batch = [](std::uint64_t step) {
      if (step == 14) ::raise(SIGKILL);
    }});
    EXPECT_THROW(run_training(options, *dies, quiet), Failure);
    const Checkpoint part = read_checkpoint(options.out);
    EXPECT_EQ(part.batches, 36u);
    EXPECT_TRUE(fs::exists(part.paths.recipe)) << part.paths.recipe;

    options.resume = options.out;
    options.out = (folder_ / (name + "rest")).string();
    options.algorithm_options.set("servers", "2");  // each takes the velocity of what it serves
    run_training(options, *linear_task(), quiet);
    EXPECT_EQ(read_checkpoint(options.out).checksum.parameters, whole.checksum.parameters) << servers << " servers";

    fs::resize_file(part.paths.recipe, 3);
    EXPECT_THAT(complaint(options), HasSubstr("truncated: 3 bytes"));
  }
}

TEST_F(ServerRuns, RefusesWhatMakesNoSense) {
  EXPECT_THAT(refusal(options("ssp")), HasSubstr("algorithm 'ssp': expected"));
  EXPECT_THAT(refusal(options("ssp:-1")), HasSubstr("algorithm 'ssp:-1': expected a whole number of steps, from 0"));
  EXPECT_THAT(refusal(options("k-sync")), HasSubstr("expected a whole number of gradients"));
  EXPECT_THAT(refusal(options("k-sync:0")), HasSubstr("expected K from 1 to 4"));
  EXPECT_THAT(refusal(options("k-sync:5")), HasSubstr("expected K from 1 to 4"));
  TrainOptions servers = options("ps-sync");
  servers.algorithm_options.set("servers", "5");
  EXPECT_THAT(refusal(servers), HasSubstr("5 servers among 4 ranks; expected 1 to 4"));
  for (const char* wrong : {"0", "dedicated:", "dedicated:x", "-1", "2x"}) {
    servers.algorithm_options.set("servers", wrong);
    EXPECT_THAT(refusal(servers), HasSubstr(text("servers ", wrong))) << wrong;
  }
  servers.data = "shared";
  servers.algorithm_options.set("servers", "dedicated:4");
  EXPECT_THAT(refusal(servers), HasSubstr("none is left to compute gradients"));
  servers.algorithm_options.set("servers", "dedicated:2");
  EXPECT_EQ(refusal(servers), "");
  servers.algorithm = "k-sync:3";
  EXPECT_THAT(refusal(servers), HasSubstr("expected K from 1 to 2"));
  servers.data = "partitioned";
  EXPECT_THAT(refusal(servers), HasSubstr("with data partitioned: expected data shared"));
  TrainOptions samples = options("ps-async");
  samples.normalize = Normalize::samples;
  EXPECT_THAT(refusal(samples), HasSubstr("normalize samples with a parameter server"));
}

}  // namespace
}  // namespace stretto
