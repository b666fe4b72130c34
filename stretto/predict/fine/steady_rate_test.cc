#include "stretto/predict/fine/steady_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace stretto {
namespace {

TEST(MeasuredWindow, LeavesOutTheFirstTenth) {
  std::vector<double> ends;
  for (int step = 0; step <= 20; ++step) ends.push_back(step * 0.5);
  EXPECT_EQ(measured_window(ends).begin, 1);
  EXPECT_EQ(measured_window(ends).end, 10);
  EXPECT_EQ(measured_window(std::vector<double>{0, 3}).begin, 0);  // of few steps none
}

TEST(SteadyRate, DoesNotDependOnWhereTheWindowCutsAStep) {
  const std::vector<double> ends{0, 2, 4, 6, 8, 10, 12};
  for (const double begin : {2.0, 2.5, 3.99}) EXPECT_EQ(steady_rate(ends, {begin, 11}), 0.5) << begin;
}

TEST(SteadyRate, CountsWhatAVerySlowWorkerHasDone) {
  EXPECT_EQ(steady_rate(std::vector<double>{0, 7}, {1, 9}), 1 / 8.0);
  EXPECT_EQ(steady_rate(std::vector<double>{0}, {1, 9}), 0);
  EXPECT_EQ(steady_rate(std::vector<double>{0, 20}, {1, 9}), 0);
}

TEST(SteadyRate, IsInfiniteWhereStepsTakeNoTime) {
  EXPECT_TRUE(std::isinf(steady_rate(std::vector<double>{0, 0, 0}, {0, 0})));
}

}  // namespace
}  // namespace stretto
