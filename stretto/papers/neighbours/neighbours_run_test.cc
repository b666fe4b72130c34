#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "stretto/papers/neighbours/neighbour_averaging.h"
#include "stretto/train/job/checkpoint.h"
#include "stretto/train/job/run.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class NeighbourAveraging : public testing::Test {
 protected:
  NeighbourAveraging() : folder_(fs::path(testing::TempDir()) / text("stretto_neighbours_", ::getpid())) {
    ::alarm(100);
    fs::create_directories(folder_);
  }
  ~NeighbourAveraging() override {
    ::alarm(0);
    fs::remove_all(folder_);
  }

  RunSummary run(const TrainOptions& options, const LinearTaskOptions& task = {}) {
    RunHooks hooks{.progress = [this](const RunProgress& progress) { notices_ += progress.notice; }};
    return run_training(options, *linear_task(task), hooks).value();
  }

  Checkpoint checkpoint_of(TrainOptions options) {
    options.out = (folder_ / text("run", runs_++)).string();
    options.checkpoint_every = 1'000'000;
    run(options);
    return read_checkpoint(options.out);
  }
  ReplicaChecksum final_checksum(const TrainOptions& options) { return checkpoint_of(options).checksum; }
  /// Of all parameters, one after the other.
  std::vector<float> final_model(const TrainOptions& options) {
    const auto rank = linear_task()->start_rank({.seed = 1, .lr = 0.05, .momentum = 0});
    rank->replica().load(read_whole_file(checkpoint_of(options).paths.replica, FileContent::bytes).or_throw());
    std::vector<float> model;
    for (std::size_t b = 0; b < rank->replica().buckets().size(); ++b) {
      const auto bytes = rank->replica().parameters(static_cast<int>(b));
      model.resize(model.size() + bytes.size() / sizeof(float));
      std::memcpy(model.data() + model.size() - bytes.size() / sizeof(float), bytes.data(), bytes.size());
    }
    return model;
  }

  std::string graph_file(const std::string& content) {
    std::string path = (folder_ / "graph").string();
    std::ofstream(path) << content;
    return path;
  }

  /// What a run is refused with.
  std::string why(const TrainOptions& options) {
    try {
      run(options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  }

  const fs::path folder_;
  std::string notices_;
  int runs_ = 0;
};

struct NeighbourRun {
  std::string algorithm;
  int ranks;
  AlgorithmOptions options = {};
  std::uint64_t sync_every = 0;
};
void PrintTo(const NeighbourRun& c, std::ostream* out) {
  *out << c.algorithm << " on " << c.ranks << ", " << c.options.to_string() << ", average every " << c.sync_every;
}

const NeighbourRun kNeighbourRuns[] = {
    {"d-psgd", 1},
    {"d-psgd", 2},
    {"d-psgd", 3, {{"graph", "exponential"}}},
    {"d-psgd", 5, {{"mix-order", "step-then-average"}}},
    {"d-psgd", 4, {{"graph", "bipartite"}}, 3},
    {"d-psgd", 4, {{"graph", "complete"}}},
    {"sgp", 1},
    {"sgp", 3},
    {"sgp", 5, {{"neighbours", "2"}}},
    {"sgp", 5, {{"neighbours", "4"}}, 1},
    {"sgp", 4, {{"graph", "bipartite"}}, 4},
    {"osgp", 3},
    {"osgp", 4, {{"overlap-rounds", "2"}}},
    {"osgp", 5, {}, 5},
    {"gossip-grad", 1},
    {"gossip-grad", 4},
    {"gossip-grad", 5, {}, 7},
};

TEST_F(NeighbourAveraging, CountsEveryBatchOnceAndEndsWithEqualReplicas) {
  for (const NeighbourRun& c : kNeighbourRuns) {
    SCOPED_TRACE(testing::PrintToString(c));
    for (const char* late : {"none", "persistent:rank=0,delay=1ms"}) {
      notices_.clear();
      // 64 samples, 4 a batch, 5 passes: 80 batches, which 3 and 5 ranks share unevenly.
      const RunSummary s = run({.algorithm = c.algorithm,
                                .ranks = c.ranks,
                                .epochs = 5,
                                .imbalance = late,
                                .sync_every = c.sync_every,
                                .algorithm_options = c.options});
      EXPECT_EQ(s.deposits.made, 80u);
      EXPECT_EQ(s.deposits.applied, 80u);
      EXPECT_TRUE(s.replicas_identical) << notices_;
      EXPECT_LE(s.staleness_max, c.algorithm == "osgp" ? c.options.count("overlap-rounds", 1) : 0u);
      EXPECT_LT(*s.loss, 5) << "from 50";
    }
  }
}

TEST_F(NeighbourAveraging, RanksThatDrawTheirBatchesFromOnePoolMakeUnequalNumbers) {
  for (const char* algorithm : {"d-psgd", "sgp", "osgp", "gossip-grad"}) {
    for (const std::uint64_t sync_every : {0, 4}) {
      const RunSummary s = run({.algorithm = algorithm,
                                .ranks = 4,
                                .epochs = 5,
                                .imbalance = "persistent:rank=1,delay=2ms",
                                .data = "shared",
                                .sync_every = sync_every});
      EXPECT_EQ(s.deposits.applied, 80u) << algorithm << ", average every " << sync_every;
      EXPECT_TRUE(s.replicas_identical) << algorithm << ", average every " << sync_every << notices_;
    }
  }
}

TEST_F(NeighbourAveraging, ProgressByTheApplicationAloneIsEnough) {
  for (const char* algorithm : {"d-psgd", "sgp", "osgp", "gossip-grad"}) {
    const RunSummary s =
        run({.algorithm = algorithm, .ranks = 3, .epochs = 5, .sync_every = 6, .progress_by = ProgressBy::application});
    EXPECT_EQ(s.deposits.applied, 80u) << algorithm;
    EXPECT_TRUE(s.replicas_identical) << algorithm;
  }
}

TEST_F(NeighbourAveraging, OfTwoRanksIsSyncUpToRounding) {
  TrainOptions options{.ranks = 2, .epochs = 3, .momentum = 0, .data = "partitioned", .fixed_order = true};
  const std::vector<float> sync = final_model(options);
  for (const std::string algorithm : {"d-psgd", "gossip-grad", "sgp"}) {
    options.algorithm = algorithm;
    options.algorithm_options = {};
    if (algorithm == "d-psgd") options.algorithm_options = {{"mix-order", "step-then-average"}};
    const std::vector<float> model = final_model(options);
    ASSERT_EQ(model.size(), sync.size());
    for (std::size_t i = 0; i < model.size(); ++i) {
      EXPECT_NEAR(model[i], sync[i], 1e-6 * std::max(1.0f, std::abs(sync[i]))) << algorithm << ", parameter " << i;
    }
  }
}

TEST_F(NeighbourAveraging, OnACompleteGraphIsLocalSgdWithOneStep) {
  TrainOptions options{.algorithm = "local", .ranks = 4, .epochs = 3, .momentum = 0.9, .sync_every = 1};
  const std::vector<float> local = final_model(options);
  options.algorithm = "d-psgd";
  options.sync_every = 0;
  options.algorithm_options = {{"graph", "complete"}, {"mix-order", "step-then-average"}};
  const std::vector<float> model = final_model(options);
  for (std::size_t i = 0; i < model.size(); ++i) EXPECT_NEAR(model[i], local[i], 1e-4) << i;
}

TEST_F(NeighbourAveraging, RepeatsToTheBitAndOverlapsByNoRoundsAsSgp) {
  for (const char* neighbours : {"1", "2"}) {
    TrainOptions options{.algorithm = "sgp", .ranks = 5, .epochs = 3, .momentum = 0.9, .data = "partitioned"};
    options.algorithm_options = {{"neighbours", neighbours}};
    const ReplicaChecksum sgp = final_checksum(options);
    EXPECT_EQ(final_checksum(options), sgp);
    options.algorithm = "osgp";
    options.algorithm_options = {{"neighbours", neighbours}, {"overlap-rounds", "0"}};
    EXPECT_EQ(final_checksum(options), sgp);
  }
}

TEST_F(NeighbourAveraging, GossipsOverSamplesThatMoveAlongARing) {
  TrainOptions options{.algorithm = "gossip-grad", .ranks = 4, .epochs = 8, .data = "ring"};
  const ReplicaChecksum ring = final_checksum(options);
  EXPECT_EQ(final_checksum(options), ring);
  EXPECT_EQ(run(options).deposits.applied, 128u);
  options.data = "partitioned";
  EXPECT_NE(final_checksum(options), ring);
}

TEST_F(NeighbourAveraging, KeepsTheSumOfAllModels) {
  const auto rank = linear_task()->start_rank({.seed = 1, .lr = 0.05, .momentum = 0});
  std::vector<float> first;
  for (std::size_t b = 0; b < rank->replica().buckets().size(); ++b) {
    const auto bytes = rank->replica().parameters(static_cast<int>(b));
    const auto* floats = reinterpret_cast<const float*>(bytes.data());
    first.insert(first.end(), floats, floats + bytes.size() / sizeof(float));
  }
  for (const NeighbourRun& c : kNeighbourRuns) {
    // Steps too small to be seen: what is left of the first model after all sending and mixing is all of it.
    const std::vector<float> last = final_model({.algorithm = c.algorithm,
                                                 .ranks = c.ranks,
                                                 .epochs = 3,
                                                 .lr = 1e-12,
                                                 .momentum = 0,
                                                 .imbalance = c.ranks > 1 ? "persistent:rank=1,delay=500us" : "none",
                                                 .sync_every = c.sync_every,
                                                 .algorithm_options = c.options});
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_NEAR(last[i], first[i], 1e-6 * std::max(1.0f, std::abs(first[i]))) << testing::PrintToString(c);
    }
  }
}

TEST_F(NeighbourAveraging, TakesAGraphFromAFile) {
  TrainOptions options{.algorithm = "d-psgd", .ranks = 4, .epochs = 3, .data = "partitioned"};
  options.algorithm_options = {{"graph", graph_file("0 1\n1 2\n2 3\n3 0\n")}};
  const ReplicaChecksum listed = final_checksum(options);
  options.algorithm_options = {{"graph", "ring"}};
  EXPECT_EQ(listed, final_checksum(options));
}

TEST_F(NeighbourAveraging, GoesOnFromACheckpointAtAnAverageOfAll) {
  TrainOptions options{.algorithm = "sgp", .ranks = 3, .epochs = 3, .data = "partitioned", .sync_every = 4};
  options.out = (folder_ / "resumed").string();
  options.checkpoint_every = 12;
  EXPECT_EQ(run(options).deposits.applied, 48u);
  TrainOptions longer = options;
  longer.resume = options.out;
  longer.out.clear();
  longer.epochs = 5;
  const RunSummary s = run(longer);
  EXPECT_TRUE(s.replicas_identical);
  EXPECT_LT(*s.loss, 5);
}

TEST_F(NeighbourAveraging, RefusesWhatCannotBeInOneLine) {
  TrainOptions options{.algorithm = "d-psgd", .ranks = 4, .epochs = 1};
  options.algorithm_options = {{"graph", graph_file("0 1\n2 3\n")}};
  EXPECT_THAT(why(options), HasSubstr("is not connected: no path from rank 0 to rank 2, 3"));
  options.algorithm_options = {{"graph", "rign"}};
  EXPECT_THAT(why(options), HasSubstr("graph rign: cannot open 'rign': No such file or directory; expected ring, "
                                      "exponential, bipartite, complete or "
                                      "a file of edges, one \"a b\" a line"));
  options.algorithm = "sgp";
  options.algorithm_options = {{"neighbours", "4"}};
  EXPECT_EQ(why(options), "neighbours 4 with 4 ranks: expected 1 to 3, the others");
  options.algorithm_options = {{"graph", "ring"}};
  EXPECT_EQ(why(options), "graph 'ring': expected exponential or bipartite");
  options.ranks = 3;
  options.algorithm_options = {{"graph", "bipartite"}};
  EXPECT_THAT(why(options), HasSubstr("there are 3 ranks; expected an even number of them"));
  options.algorithm_options = {};
  options.normalize = Normalize::samples;
  EXPECT_THAT(why(options), HasSubstr("normalize samples: expected contributors"));
}

}  // namespace
}  // namespace stretto
