#include "command/predict/lifetime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::command {
namespace {

using testing::HasSubstr;

Choice choice_of(const std::string& algorithm) {
  Choice choice;
  choice.algorithm = algorithm;
  return choice;
}

TEST(Lifetime, CountsAStepForEachChange) {
  const LifetimeCost cost = cost_of_lifetime(choice_of("eager-quorum:32"), 64, 1, 7200);
  EXPECT_TRUE(cost.goes_on);
  EXPECT_DOUBLE_EQ(cost.changes, 64);
  EXPECT_NEAR(cost.lost_share, 64.0 / 3600, 1e-9);
  EXPECT_NEAR(cost.lost_by_restarts, 0.236, 0.001);
  EXPECT_THAT(cost.sentence, HasSubstr("change 64 times an hour"));
  EXPECT_THAT(cost.sentence, HasSubstr("restarts lose 23.6"));
  EXPECT_DOUBLE_EQ(cost_of_lifetime(choice_of("sync"), 64, 10, 1).lost_share, 1) << "no more than all of it";
}

TEST(Lifetime, SaysWhichAlgorithmsDoNotGoOn) {
  const LifetimeCost cost = cost_of_lifetime(choice_of("ps-async"), 8, 0.1, 600);
  EXPECT_FALSE(cost.goes_on);
  EXPECT_THAT(cost.sentence, HasSubstr("ps-async"));
  EXPECT_THAT(cost.sentence, HasSubstr("does not go on"));
}

}  // namespace
}  // namespace stretto::command
