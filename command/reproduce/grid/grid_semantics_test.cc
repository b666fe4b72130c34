#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/reproduce/experiments.h"
#include "command/reproduce/small_model.h"
#include "command/train/training_options.h"

namespace stretto::command {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

std::vector<Experiment> grid_experiments() {
  return grid_semantics_experiments({.ranks = 64, .steps = 60, .pace = 12500us});
}

/// As if each group had been run three times and had come to about these training losses by its end.
Experiment with_final_losses(const std::vector<double>& losses) {
  Experiment experiment = grid_experiments().front();
  EXPECT_EQ(experiment.groups.size(), losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    for (int run = 0; run < 3; ++run) {
      RunSummary summary;
      summary.train_loss = losses[i] * (1 + 0.01 * run * static_cast<double>(i));
      summary.wall_seconds = 6;
      experiment.groups[i].runs.push_back(summary);
    }
  }
  return experiment;
}

TEST(GridSemantics, EveryRowIsARunThatCanBe) {
  const auto experiments = grid_experiments();
  ASSERT_EQ(experiments.size(), 4u);
  for (const Experiment& experiment : experiments) {
    ASSERT_EQ(experiment.groups.size(), 8u);
    for (const RunGroup& group : experiment.groups) {
      EXPECT_NO_THROW(check_training(group.options)) << group.label;
      const bool grid = group.options.algorithm == "easgd-grid";
      EXPECT_EQ(group.options.evaluate_every == 0, grid) << group.label;
      EXPECT_EQ(group.options.steps < 60, grid) << group.label;
      EXPECT_GE(group.options.steps, 56u) << "the time is nearly over";
    }
  }
}

TEST(GridSemantics, TheImbalances) {
  const auto options = [](std::size_t i) { return grid_experiments()[i].groups.front().options; };
  EXPECT_EQ(options(0).imbalance, "lognormal:mean=99ms,cv=0.42");
  EXPECT_EQ(options(0).data, "shared");
  EXPECT_EQ(options(1).imbalance, "persistent:rank=3,factor=2");
  EXPECT_EQ(options(1).ranks, 16);
  EXPECT_EQ(options(2).imbalance, "random:ranks=2,delay=50ms+lognormal:mean=3ms,cv=1");
  EXPECT_EQ(options(2).network, "latency=600us,bandwidth=10GB/s,jitter=400us");
  EXPECT_EQ(options(3).network, "latency=28.125ms,bandwidth=10GB/s,jitter=18.75ms");
}

TEST(GridSemantics, TheRecommendationStandsWhereNoRuleIsBetter) {
  const Judgement judgement = judge_grid_semantics(with_final_losses({9, 2, 5, 5, 4, 2, 2, 2}));
  EXPECT_TRUE(judgement.holds) << judgement.text;
  EXPECT_THAT(judgement.text, Not(HasSubstr("FAIL")));
  EXPECT_THAT(judgement.text, HasSubstr("training loss after 6.00 s"));
}

TEST(GridSemantics, AndFallsWhereOneIs) {
  const Judgement groups_are_better = judge_grid_semantics(with_final_losses({9, 2, 9, 9, 9, 4, 9, 4}));
  EXPECT_TRUE(groups_are_better.holds) << "what is not required";
  EXPECT_THAT(groups_are_better.text, HasSubstr("FAIL"));
  EXPECT_FALSE(judge_grid_semantics(with_final_losses({9, 9, 2, 9, 9, 4, 9, 4})).holds) << "the paper's rule";
  EXPECT_FALSE(judge_grid_semantics(with_final_losses({9, 2, 5, 5, 4, 2, 2, 4})).holds) << "numbers of a byte";
  const Experiment local_is_better = with_final_losses({9, 9, 9, 9, 2, 4, 9, 4});
  const Judgement judgement = judge_grid_semantics(local_is_better);
  EXPECT_FALSE(judgement.holds) << "local momentum";
  EXPECT_THAT(judgement.text, HasSubstr("FAIL"));
  EXPECT_TRUE(show_grid_semantics(local_is_better).holds);
}

}  // namespace
}  // namespace stretto::command
