#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/reproduce/experiments.h"
#include "command/train/training_options.h"

namespace stretto::command {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

Experiment alexnet() {
  return alexnet_grid_experiments({.ranks = 16, .epochs = 60, .pace = 10ms}).front();
}

/// As if each group had come to such an accuracy, in %, and rank 0's own model had been so many points below it in the
/// last quarter of the run.
Experiment with_accuracies(const std::vector<double>& average, const std::vector<double>& below) {
  Experiment experiment = alexnet();
  for (std::size_t i = 0; i < experiment.groups.size(); ++i) {
    RunSummary run;
    run.accuracy = average[i] / 100;
    for (int evaluation = 0; evaluation < 20; ++evaluation) {
      RunSummary::EvaluationPoint point;
      point.accuracy = evaluation < 15 ? 0.1 : (average[i] - below[i]) / 100;
      run.evaluations.push_back(point);
    }
    experiment.groups[i].runs.push_back(run);
  }
  return experiment;
}

TEST(AlexNetGrid, EveryRowIsARunThatCanBe) {
  const Experiment experiment = alexnet();
  ASSERT_EQ(experiment.groups.size(), 5u);
  for (const RunGroup& group : experiment.groups) {
    EXPECT_NO_THROW(check_training(group.options)) << group.label;
    EXPECT_EQ(group.options.evaluate, "replica");
    EXPECT_EQ(group.options.epochs, 60u) << "as many batches in all";
  }
  EXPECT_EQ(experiment.groups.front().options.ranks, 1);
  EXPECT_EQ(experiment.groups[1].options.ranks, 4);
  EXPECT_EQ(experiment.groups[3].options.ranks, 16);
  EXPECT_EQ(experiment.groups.back().options.network, "latency=60ms,bandwidth=10GB/s,jitter=20ms");
}

TEST(AlexNetGrid, HoldsWhereTheAverageIsCloseAndLargerGridsAreFurtherApart) {
  const Judgement judgement = judge_alexnet_grid(with_accuracies({98, 97, 99, 95.1, 95.1}, {0, 1, 1, 2, 2}));
  EXPECT_TRUE(judgement.holds) << judgement.text;
  EXPECT_THAT(judgement.text, Not(HasSubstr("FAIL")));
  EXPECT_EQ(judgement.statements.size(), 6u);
}

TEST(AlexNetGrid, AndFallsElse) {
  EXPECT_FALSE(judge_alexnet_grid(with_accuracies({98, 97, 99, 94.9, 97}, {0, 1, 1, 2, 2})).holds) << "less accurate";
  const Judgement closer = judge_alexnet_grid(with_accuracies({98, 97, 97, 97, 97}, {0, 1, 1, 2, 0.9}));
  EXPECT_FALSE(closer.holds) << "no further apart";
  EXPECT_THAT(closer.text, HasSubstr("FAIL"));
}

}  // namespace
}  // namespace stretto::command
