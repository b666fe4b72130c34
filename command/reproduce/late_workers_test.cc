#include "command/reproduce/late_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::command {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

/// As if each group had been run, with these batches per second.
void finish(Experiment& experiment, const std::vector<double>& throughputs) {
  ASSERT_EQ(experiment.groups.size(), throughputs.size());
  for (std::size_t i = 0; i < throughputs.size(); ++i) {
    RunSummary run;
    run.ranks = 64;
    run.throughput = throughputs[i];
    run.wall_seconds = 100;
    run.rounds = static_cast<std::uint64_t>(throughputs[i] / 64 * 100);
    experiment.groups[i].runs = {run};
  }
}

TEST(LateWorkers, AreThePapersInVirtualTime) {
  const auto experiments = wagma_throughput_experiments({.ranks = 64, .steps = 300, .pace = 640ms});
  ASSERT_EQ(experiments.size(), 5u);
  const TrainOptions& options = experiments.back().groups.front().options;
  EXPECT_TRUE(options.simulated);
  EXPECT_TRUE(options.no_gradients);
  EXPECT_EQ(options.ranks, 64);
  EXPECT_EQ(options.model_bytes, 102'236'324u);
  EXPECT_EQ(options.imbalance, "random:ranks=2,delay=320ms");
  EXPECT_EQ(experiments.back().groups.back().options.algorithm, "wagma");
  EXPECT_EQ(experiments[3].groups.front().options.ranks, 1024);
  EXPECT_EQ(experiments[3].groups.front().options.steps, 9u);
  const auto table2 = table2_experiments({.ranks = 64, .steps = 300, .pace = 640ms});
  EXPECT_EQ(table2.at(0).groups.front().options.imbalance, "random:ranks=4,delay=460ms");
}

TEST(LateWorkers, WagmaMustBeAheadOfWhatWaitsForAll) {
  Experiment experiment = wagma_throughput_experiments({.ranks = 64, .steps = 300, .pace = 640ms}).back();
  finish(experiment, {80, 80, 90, 80, 90, 100, 100, 100, 100, 100});
  EXPECT_TRUE(judge_wagma_throughput(experiment).holds);
  EXPECT_THAT(judge_wagma_throughput(experiment).text, Not(HasSubstr("FAIL")));
  finish(experiment, {81, 80, 90, 80, 90, 100, 100, 100, 100, 100});
  EXPECT_FALSE(judge_wagma_throughput(experiment).holds);
  EXPECT_THAT(judge_wagma_throughput(experiment).text, HasSubstr("FAIL"));
  EXPECT_TRUE(show_wagma_throughput(experiment).holds);
}

TEST(LateWorkers, TheOrderOfTableTwoIsJudged) {
  Experiment experiment = table2_experiments({.ranks = 64, .steps = 300, .pace = 640ms}).at(0);
  finish(experiment, {500, 60, 65, 76});
  EXPECT_TRUE(judge_table2(experiment).holds) << "the server's place is not";
  finish(experiment, {10, 66, 65, 76});
  EXPECT_FALSE(judge_table2(experiment).holds);
}

}  // namespace
}  // namespace stretto::command
