#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/reproduce/experiments.h"

namespace stretto::command {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

TEST(SurvivingSteps, AreAsManyAsWasReckoned) {
  const auto experiments = grid_semantics_experiments({.ranks = 64, .steps = 60, .pace = 12500us});
  const Judgement judgement = judge_surviving_steps(experiments);
  EXPECT_TRUE(judgement.holds) << judgement.text;
  EXPECT_EQ(judgement.statements.size(), 4u);
  EXPECT_THAT(judgement.text, Not(HasSubstr("FAIL")));
}

TEST(SurvivingSteps, AreFewerTheFurtherModelsMove) {
  const double more = surviving_share(ElasticUpdate::paper, 0.2, 7),
               fewer = surviving_share(ElasticUpdate::paper, 0.3, 7);
  EXPECT_GT(more, fewer + 0.05);
  EXPECT_EQ(surviving_share(ElasticUpdate::paper, 0.3, 7), fewer) << "a function of the seed";
}

}  // namespace
}  // namespace stretto::command
