#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/reproduce/experiments.h"

namespace stretto::command {
namespace {

using testing::HasSubstr;
using testing::Not;

Experiment learned(std::vector<double> without, std::vector<double> with) {
  Experiment one = churn_learning_experiments({.ranks = 8, .pace = std::chrono::milliseconds(10)}).front();
  for (std::size_t i = 0; i < one.groups.size(); ++i) {
    for (const double accuracy : i % 2 == 0 ? without : with) {
      RunSummary run;
      run.accuracy = accuracy;
      one.groups[i].runs.push_back(run);
    }
  }
  return one;
}

TEST(ReproduceChurnLearning, ComparesEachAlgorithmWithItselfWhereMembersStay) {
  const auto experiments = churn_learning_experiments({.ranks = 8, .pace = std::chrono::milliseconds(10)});
  ASSERT_EQ(experiments.size(), 1u);
  const auto& groups = experiments[0].groups;
  ASSERT_EQ(groups.size(), 8u);
  for (std::size_t i = 0; i < groups.size(); i += 2) {
    const TrainOptions &staying = groups[i].options, &changing = groups[i + 1].options;
    EXPECT_EQ(staying.algorithm, changing.algorithm);
    EXPECT_EQ(staying.data, "shared");
    EXPECT_TRUE(staying.simulated && staying.churn.empty() && staying.least == 0);
    EXPECT_TRUE(changing.simulated && changing.least == 2);
    EXPECT_THAT(changing.churn, HasSubstr("life=80s,notice=0.5,back=5s"));
  }
}

TEST(ReproduceChurnLearning, FailsWhereTheMedianWithChangesLiesBelowTheLowestWithout) {
  const Judgement within = judge_churn_learning(learned({0.97, 0.95, 0.96}, {0.90, 0.95, 0.99}));
  EXPECT_TRUE(within.holds);
  EXPECT_THAT(within.text, Not(HasSubstr("FAIL")));
  EXPECT_THAT(within.text, HasSubstr("0.960 (0.950 to 0.970)"));
  const Judgement below = judge_churn_learning(learned({0.97, 0.95, 0.96}, {0.99, 0.949, 0.90}));
  EXPECT_FALSE(below.holds);
  EXPECT_THAT(below.text, HasSubstr("FAIL"));
}

}  // namespace
}  // namespace stretto::command
