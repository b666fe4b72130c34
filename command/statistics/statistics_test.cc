#include "command/statistics/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace stretto::command {
namespace {

TEST(Statistics, MeanDeviationMedianAndQuantiles) {
  const std::vector<double> values = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(mean(values), 2.5);
  EXPECT_DOUBLE_EQ(standard_deviation(values), std::sqrt(5.0 / 3));
  EXPECT_DOUBLE_EQ(median(values), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 4);
  EXPECT_DOUBLE_EQ(quantile(values, 0.25), 1.75);
}

TEST(Statistics, TooFewValuesAreNotANumber) {
  const std::vector<double> one = {7};
  EXPECT_DOUBLE_EQ(mean({}), 0);
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_DOUBLE_EQ(median(one), 7);
  EXPECT_TRUE(std::isnan(standard_deviation(one)));
  EXPECT_DOUBLE_EQ(mean_interval(one).estimate, 7);
  EXPECT_TRUE(std::isnan(mean_interval(one).low));
}

TEST(Statistics, StudentQuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(student_t_quantile(0.975, 1), 12.706204736, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.975, 2), 4.302652730, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.975, 4), 2.776445105, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.975, 9), 2.262157163, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.975, 30), 2.042272456, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.995, 9), 3.249835542, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.025, 9), -2.262157163, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.5, 9), 0, 1e-12);
}

TEST(Statistics, PairedIntervalIsThatOfTheDifferences) {
  const std::vector<double> a = {10, 20, 30, 40, 50};
  const std::vector<double> b = {11, 22, 33, 44, 55};  // differences 1 … 5: mean 3, deviation √2.5
  const Interval interval = paired_interval(a, b);
  const double half = 2.776445105 * std::sqrt(2.5) / std::sqrt(5.0);
  EXPECT_DOUBLE_EQ(interval.estimate, 3);
  EXPECT_NEAR(interval.low, 3 - half, 1e-8);
  EXPECT_NEAR(interval.high, 3 + half, 1e-8);
}

TEST(Statistics, MedianIntervalIsThatOfTheSignTest) {
  std::vector<double> values;
  for (int i = 1; i <= 20; ++i) values.push_back(i);
  const Interval twenty = median_interval(values);  // the 6th and the 15th of 20: 95.9 %
  EXPECT_DOUBLE_EQ(twenty.estimate, 10.5);
  EXPECT_DOUBLE_EQ(twenty.low, 6);
  EXPECT_DOUBLE_EQ(twenty.high, 15);
  values.resize(10);
  EXPECT_DOUBLE_EQ(median_interval(values).low, 2);  // the 2nd and the 9th of 10: 97.9 %
  EXPECT_DOUBLE_EQ(median_interval(values).high, 9);
  values.resize(3);
  EXPECT_DOUBLE_EQ(median_interval(values).low, 1);
  EXPECT_DOUBLE_EQ(median_interval(values).high, 3);
}

TEST(Statistics, KolmogorovAndSmirnov) {
  EXPECT_EQ(ks_distance({1, 2, 3}, {3, 2, 1}), 0);
  EXPECT_EQ(ks_distance({1, 2}, {3, 4, 5}), 1);
  EXPECT_DOUBLE_EQ(ks_distance({1, 2, 3, 4}, {2, 3, 4, 5}), 0.25);
  EXPECT_DOUBLE_EQ(ks_distance({1, 1, 1, 1}, {1, 1, 2}), 1.0 / 3);
  EXPECT_EQ(ks_distance({1, 2, 4}, {1.01, 2.02, 3.97}, 0.02), 0);
  EXPECT_DOUBLE_EQ(ks_distance({1, 2, 4}, {1.01, 2.02, 3.97}, 0.0075), 1.0 / 3);  // either of the first two
  EXPECT_DOUBLE_EQ(ks_distance({1, 1, 1, 2}, {1, 2, 2, 2}, 0.02), 0.5);
}

}  // namespace
}  // namespace stretto::command
