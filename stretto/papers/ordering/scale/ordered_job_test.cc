#include "stretto/papers/ordering/scale/ordered_job.h"

#include <gtest/gtest.h>

#include <cmath>

#include "stretto/base/error.h"

namespace stretto {
namespace {

TEST(DelayDistribution, NothingSaidIsNoDelay) {
  Random random(1);
  EXPECT_EQ(DelayDistribution().draw(random), 0);
}

TEST(DelayDistribution, ExponentialHasItsQuantiles) {
  const auto delay = DelayDistribution::exponential(2);
  EXPECT_EQ(delay.at(0), 0);
  EXPECT_DOUBLE_EQ(delay.at(0.5), 2 * std::log(2));
  EXPECT_NEAR(delay.at(1 - std::exp(-3)), 6, 1e-12);
  EXPECT_EQ(delay.mean(), 2);
}

TEST(DelayDistribution, MeasuredIsLinearBetweenOrderStatistics) {
  const auto delay = DelayDistribution::of_samples({4, 1, 2});
  EXPECT_EQ(delay.at(0), 1);
  EXPECT_EQ(delay.at(0.25), 1.5);
  EXPECT_EQ(delay.at(0.5), 2);
  EXPECT_EQ(delay.at(0.75), 3);
  EXPECT_NEAR(delay.at(1 - 1e-12), 4, 1e-11);
  EXPECT_EQ(delay.mean(), 2.25);  // of 1 … 2 and 2 … 4, equally often
  EXPECT_EQ(DelayDistribution::of_samples({7}).at(0.9), 7);
  EXPECT_EQ(DelayDistribution::of_samples({7}).mean(), 7);
}

TEST(DelayDistribution, DrawsHaveTheMean) {
  Random random(3);
  for (const auto& delay : {DelayDistribution::exponential(2.25), DelayDistribution::of_samples({1, 2, 4})}) {
    double sum = 0;
    constexpr int kDraws = 20'000;
    for (int i = 0; i < kDraws; ++i) sum += delay.draw(random);
    EXPECT_NEAR(sum / kDraws, 2.25, 0.08);  // five standard errors
  }
}

TEST(DelayDistribution, AsManyEventsAsExpected) {
  Random random(5);
  const auto one = DelayDistribution::of_samples({1});
  EXPECT_EQ(compound_poisson(0, one, random), 0);
  double sum = 0, squares = 0;
  constexpr int kRuns = 20'000;
  for (int i = 0; i < kRuns; ++i) {
    const double events = compound_poisson(1.5, one, random);
    sum += events;
    squares += events * events;
  }
  EXPECT_NEAR(sum / kRuns, 1.5, 0.045);
  EXPECT_NEAR(squares / kRuns, 1.5 + 1.5 * 1.5, 0.15);
}

TEST(DelayDistribution, Misuse) {
  const CheckFailuresThrow guard;
  EXPECT_THROW((void)DelayDistribution::of_samples({}), CheckFailure);
  EXPECT_THROW((void)DelayDistribution::of_quantiles({2, 1}), CheckFailure);
  EXPECT_THROW((void)DelayDistribution::exponential(-1), CheckFailure);
}

}  // namespace
}  // namespace stretto
