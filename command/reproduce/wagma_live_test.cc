#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/reproduce/experiments.h"

namespace stretto::command {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

std::vector<Experiment> live_experiments() {
  return wagma_live_experiments({.ranks = 8, .epochs = 20, .pace = 400us});
}

/// As if each group had been run, with this throughput, in 10 seconds.
void finish(Experiment& experiment, double throughput) {
  for (RunGroup& group : experiment.groups) {
    RunSummary run;
    run.throughput = throughput;
    run.wall_seconds = 10;
    run.curve = {{2, 100, 4}, {6, 300, 3}, {10, 500, 2}};
    group.runs = {run};
  }
}

TEST(WagmaLive, RunsTheSameAlgorithmsOnBothWorkloadsInRealTime) {
  const auto both = live_experiments();
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].groups[0].options.workload, "vowels");
  EXPECT_EQ(both[1].groups[0].options.workload, "plaid");
  for (const Experiment& experiment : both) {
    EXPECT_EQ(experiment.groups[0].options.algorithm, "sync");
    EXPECT_EQ(experiment.groups.size(), 9u);
    for (const RunGroup& group : experiment.groups) {
      EXPECT_FALSE(group.options.simulated);
      EXPECT_EQ(group.options.imbalance, "none");
      EXPECT_EQ(group.options.pace, 400us);
    }
  }
}

TEST(WagmaLive, ShowsLossesOverTimeAndJudgesThroughput) {
  Experiment experiment = live_experiments()[0];
  finish(experiment, 100);
  experiment.groups[1].runs[0].throughput = 101;  // wagma
  const Judgement ahead = judge_wagma_live(experiment);
  EXPECT_TRUE(ahead.holds);
  for (const Statement& statement : ahead.statements) EXPECT_TRUE(statement.holds) << statement.text;
  EXPECT_THAT(ahead.text, HasSubstr("training loss until  2.50 s  5.00 s  7.50 s  10.0 s"));
  experiment.groups[1].runs[0].throughput = 100;
  const Judgement beside = judge_wagma_live(experiment);
  EXPECT_TRUE(beside.holds) << "nothing is required";
  for (const Statement& statement : beside.statements) EXPECT_FALSE(statement.holds) << statement.text;
}

}  // namespace
}  // namespace stretto::command
