#include "stretto/papers/ordering/scale/step_account.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace stretto {
namespace {

TEST(SkewCorrelation, IsOneWhereTheSameRankIsAlwaysLate) {
  SkewCorrelation skew(3);
  for (int k = 0; k < 20; ++k) skew.add(std::vector<double>{5.0 * k, 5.0 * k + 1, 5.0 * k + 5});
  for (const double r : skew.at_lags()) EXPECT_NEAR(r, 1, 1e-12);
  EXPECT_NEAR(skew.mean_of_last(), 3, 1e-12);
}

TEST(SkewCorrelation, FollowsARankThatIsLateByTurns) {
  SkewCorrelation skew(2);
  for (int k = 0; k < 20; ++k) skew.add(k % 2 == 0 ? std::vector<double>{0, 2} : std::vector<double>{2, 0});
  const auto lags = skew.at_lags();
  for (std::size_t i = 0; i < lags.size(); ++i) EXPECT_NEAR(lags[i], i % 2 == 0 ? -1 : 1, 1e-12);
}

TEST(SkewCorrelation, CountsEachPairOnce) {
  // x: (−1, 1), (−2, 2), (1, −1): lag 1: (4 − 4) / √((2 + 8)(8 + 2)), lag 2: −2 / √(2 · 2).
  SkewCorrelation skew(2);
  for (const double x : {1.0, 2.0, -1.0}) skew.add(std::vector<double>{7 - x, 7 + x});
  EXPECT_NEAR(skew.at_lags()[0], 0, 1e-12);
  EXPECT_NEAR(skew.at_lags()[1], -1, 1e-12);
  EXPECT_TRUE(std::isnan(skew.at_lags()[2]));
}

TEST(SkewCorrelation, IsNoNumberWithoutSkew) {
  SkewCorrelation skew(2);
  for (int k = 0; k < 3; ++k) skew.add(std::vector<double>{1, 1});
  EXPECT_TRUE(std::isnan(skew.at_lags()[0]));
  EXPECT_EQ(skew.mean_of_last(), 0);
}

}  // namespace
}  // namespace stretto
