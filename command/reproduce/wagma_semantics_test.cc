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

std::vector<Experiment> semantics_experiments() {
  return wagma_semantics_experiments({.ranks = 64, .steps = 60, .pace = 12500us});
}

/// As if each group had been run three times and had come to about these training losses after 6 seconds, and to other
/// ones by its end.
Experiment with_losses(const std::vector<double>& losses) {
  Experiment experiment = semantics_experiments().front();
  EXPECT_EQ(experiment.groups.size(), losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    for (int run = 0; run < 3; ++run) {
      const double loss = losses[i] * (1 + 0.01 * run * static_cast<double>(i));
      RunSummary summary;
      summary.evaluations = {{.seconds = 5, .train_loss = loss + 1}, {.seconds = 7, .train_loss = loss - 1}};
      summary.train_loss = 100;
      summary.wall_seconds = 20;
      experiment.groups[i].runs.push_back(summary);
    }
  }
  return experiment;
}

TEST(WagmaSemantics, EveryRowIsARunThatCanBe) {
  ASSERT_EQ(semantics_experiments().size(), 4u);
  for (const Experiment& experiment : semantics_experiments()) {
    ASSERT_EQ(experiment.groups.size(), 9u);
    for (const RunGroup& group : experiment.groups) {
      EXPECT_NO_THROW(check_training(group.options)) << group.label;
      EXPECT_TRUE(group.options.simulated);
      EXPECT_EQ(group.options.data, "labels:3");
      EXPECT_EQ(seconds_of_all_steps(group.options), 6) << experiment.title;
    }
  }
}

TEST(WagmaSemantics, TheFourImbalances) {
  const auto options = [](std::size_t column) { return semantics_experiments()[column].groups.front().options; };
  EXPECT_EQ(options(0).imbalance, "random:ranks=2,delay=50ms+lognormal:mean=3ms,cv=1");
  EXPECT_EQ(options(1).imbalance, "lognormal:mean=99ms,cv=0.42");
  EXPECT_EQ(options(1).pace, 125us);
  EXPECT_EQ(options(2).ranks, 16);
  EXPECT_EQ(options(3).imbalance, "persistent:rank=3,factor=2");
  EXPECT_EQ(options(3).lr, 0.3);
}

TEST(WagmaSemantics, TheRecommendationStandsWhereNoRuleIsBetter) {
  const Judgement judgement = judge_wagma_semantics(with_losses({2, 9, 6, 6, 5, 4, 3, 3, 2}));
  EXPECT_TRUE(judgement.holds) << judgement.text;
  EXPECT_THAT(judgement.text, HasSubstr("training loss after 6.00 s"));
  EXPECT_THAT(judgement.text, Not(HasSubstr("FAIL")));
}

TEST(WagmaSemantics, AndFallsWhereOneIs) {
  EXPECT_FALSE(judge_wagma_semantics(with_losses({9, 9, 6, 6, 5, 4, 1.5, 3, 2})).holds) << "without a quorum";
  EXPECT_FALSE(judge_wagma_semantics(with_losses({9, 9, 6, 6, 5, 4, 3, 1.5, 2})).holds) << "without jumping";
  EXPECT_FALSE(judge_wagma_semantics(with_losses({9, 9, 2, 6, 5, 4, 3, 3, 2})).holds) << "the paper's rule";
  EXPECT_FALSE(judge_wagma_semantics(with_losses({9, 9, 6, 1, 5, 4, 3, 3, 2})).holds) << "the own sum";
  EXPECT_TRUE(judge_wagma_semantics(with_losses({1, 9, 6, 4, 5, 7, 3, 3, 2})).holds) << "what is not required";
}

}  // namespace
}  // namespace stretto::command
