#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "command/predict/simulated_choice.h"
#include "command/reproduce/experiments.h"

namespace stretto::command {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// Of two ranks, each 10 ms a sample, one of which is late by as much as a step: what is measured of sync.
Experiment measured(double rate, double fresh) {
  RunGroup group{"sync", {}, {}};
  group.options.algorithm = "sync";
  group.options.ranks = 2;
  group.options.steps = 10;
  group.options.pace = 10ms;
  group.options.imbalance = "random:ranks=1,delay=80ms";
  RunSummary run;
  run.seed = 1;
  run.throughput = rate;
  run.fresh_share = fresh;
  group.runs = {run};
  return {"2 ranks: one is late", {group}, {""}, nullptr};
}

/// A worker that takes as long as it is paced.
Experiment alone() {
  RunGroup group{"one worker", {}, {}};
  group.options.pace = 10ms;
  RunSummary run;
  run.throughput = 1 / 0.080;
  group.runs = {run};
  return {"", {group}, {""}, nullptr};
}

TEST(Prediction, AtLeastSixtyConfigurationsInTwentySituations) {
  const auto experiments = prediction_experiments({.ranks = 8, .steps = 100, .pace = 4ms});
  EXPECT_GE(experiments.size() - 1, 20u);  // the first is one worker by itself
  std::set<std::string> configurations;
  for (const Experiment& experiment : experiments) {
    for (const RunGroup& group : experiment.groups) {
      const TrainOptions& options = group.options;
      EXPECT_FALSE(options.simulated);
      configurations.insert(text(options.algorithm, ' ', options.ranks, ' ', options.imbalance));
    }
  }
  EXPECT_GE(configurations.size(), 60u);
}

TEST(Prediction, EachAlgorithmHasItsTurnWithEachNumberOfRanks) {
  std::map<int, std::set<std::string>> algorithms;
  const auto experiments = prediction_experiments({.ranks = 8, .steps = 100, .pace = 4ms});
  for (const Experiment& experiment : std::span(experiments).subspan(1)) {
    EXPECT_EQ(experiment.groups.size(), 4u);
    EXPECT_EQ(experiment.expect.size(), experiment.groups.size());
    for (const RunGroup& group : experiment.groups) algorithms[group.options.ranks].insert(group.label);
  }
  EXPECT_EQ(algorithms.size(), 4u);
  for (const auto& [ranks, tried] : algorithms) EXPECT_EQ(tried.size(), 10u) << ranks << " ranks";
}

TEST(Prediction, ManyRanksHaveMoreTimeOnTheSameCores) {
  const auto experiments = prediction_experiments({.ranks = 32, .steps = 40, .pace = 4ms});
  std::map<int, Duration> paces;
  for (const Experiment& experiment : experiments) {
    for (const RunGroup& group : experiment.groups) paces[group.options.ranks] = group.options.pace;
  }
  EXPECT_EQ(paces, (std::map<int, Duration>{{1, 4ms}, {2, 4ms}, {3, 4ms}, {16, 8ms}, {32, 16ms}}));
}

TEST(Prediction, OfASynchronousJobIsTheSlowestRankOfEachStep) {
  const double rate = 2 / 0.160;
  const std::vector<Experiment> close = {alone(), measured(1.005 * rate, 1)};
  EXPECT_TRUE(judge_predictions(close).holds) << judge_predictions(close).text;
  const std::vector<Experiment> slow = {alone(), measured(rate / 1.05, 1)};
  EXPECT_FALSE(judge_predictions(slow).holds);  // the median
  EXPECT_THAT(judge_predictions(slow).text, HasSubstr("FAIL"));
}

TEST(Prediction, FailsOfFreshnessAloneAndNotWhereThereIsNone) {
  const double rate = 2 / 0.160;
  const std::vector<Experiment> stale = {alone(), measured(rate, 0.96)};
  EXPECT_FALSE(judge_predictions(stale).holds);
  const std::vector<Experiment> none = {alone(), measured(rate, std::numeric_limits<double>::quiet_NaN())};
  EXPECT_TRUE(judge_predictions(none).holds);
}

TEST(Prediction, FailsWhereAnotherSettingThanTheOneAdvisedWasFaster) {
  Experiment experiment = measured(2 / 0.160, 1);
  experiment.groups.push_back(experiment.groups.front());
  experiment.groups.back().label = experiment.groups.back().options.algorithm = "ps-async";
  for (const double rate : {2 / 0.120, 2 / 0.170}) {  // its ideal, by which it is advised; and less than sync has
    experiment.groups.back().runs.front().throughput = rate;
    const std::vector<Experiment> all = {alone(), experiment};
    const auto statements = judge_predictions(all).statements;
    EXPECT_EQ(statements.back().holds, rate > 2 / 0.160) << statements.back().here;
  }
}

}  // namespace
}  // namespace stretto::command
