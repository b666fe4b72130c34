#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/reproduce/experiments.h"
#include "command/train/training_options.h"

namespace stretto::command {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

std::vector<Experiment> experiments() {
  return momentum_exchange_experiments({.ranks = 64, .steps = 60, .pace = 12500us});
}

TEST(MomentumExchangeRuns, DifferInWhatBecomesOfMomentumAlone) {
  ASSERT_EQ(experiments().size(), 3u);
  for (const Experiment& experiment : experiments()) {
    ASSERT_EQ(experiment.groups.size(), 3u);
    for (const RunGroup& group : experiment.groups) {
      EXPECT_NO_THROW(check_training(group.options)) << group.label;
      EXPECT_EQ(group.options.algorithm, "easgd-grid");
      EXPECT_EQ(group.options.imbalance, experiment.groups.front().options.imbalance);
    }
    EXPECT_TRUE(experiment.groups[0].options.algorithm_options.values().empty());
    EXPECT_EQ(experiment.groups[1].options.algorithm_options.to_string(), "average-momentum=yes");
    EXPECT_EQ(experiment.groups[2].options.algorithm_options.to_string(), "momentum-exchange=yes");
  }
}

TEST(MomentumExchangeRuns, SpreadTheEnergyOfASeedOverAllDimensions) {
  for (const int nodes : {16, 64}) {
    const Exchanged here = exchange_momenta(nodes, 7);
    EXPECT_GT(here.decades_before, 4) << nodes;
    EXPECT_LT(here.decades_after, 1) << nodes;
    EXPECT_LT(here.sum_off, 1e-12) << nodes;
    EXPECT_LT(here.energy_off, 1e-12) << nodes;
    EXPECT_EQ(exchange_momenta(nodes, 7).decades_after, here.decades_after) << nodes;
  }
}

TEST(MomentumExchangeRuns, AreJudgedByTheCollisionsAndNotByTheirLosses) {
  std::vector<Experiment> all = experiments();
  for (Experiment& experiment : all) {
    for (RunGroup& group : experiment.groups) {
      for (const double loss : {1.0, 1.01, 0.99}) {
        RunSummary run;
        run.train_loss = group.label == "momentum exchanged" ? 9 * loss : loss;
        run.accuracy = 0.5;
        group.runs.push_back(run);
      }
    }
    const Judgement shown = show_momentum_exchange(experiment);
    EXPECT_TRUE(shown.holds);
    EXPECT_THAT(shown.text, HasSubstr("FAIL"));
  }
  const Judgement judgement = judge_momentum_exchange(all);
  EXPECT_TRUE(judgement.holds) << judgement.text;
  EXPECT_EQ(judgement.statements.size(), 4u);
  EXPECT_THAT(judgement.text, HasSubstr("the worst of 3 seeds"));
}

}  // namespace
}  // namespace stretto::command
