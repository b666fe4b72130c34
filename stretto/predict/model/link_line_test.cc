#include "stretto/predict/model/link_line.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace stretto {
namespace {

TEST(FitLine, FindsTheLineOnWhichAllTransfersLie) {
  std::vector<TimedTransfer> transfers;
  for (double bytes = 4; bytes < 1e8; bytes *= 8) transfers.push_back({bytes, 2e-6 + bytes / 3e9});
  const LinkLine line = fit_line(transfers);
  EXPECT_NEAR(line.latency, 2e-6, 1e-15);
  EXPECT_NEAR(line.bandwidth, 3e9, 1);
  EXPECT_NEAR(line.seconds(3e9), 1 + 2e-6, 1e-12);
}

TEST(FitLine, CountsShortMessagesAsLongOnes) {
  // The long ones alone would be met best by a latency far above what the short one took.
  const LinkLine line = fit_line(std::vector<TimedTransfer>{{1, 1e-6}, {1e6, 2e-3}, {2e6, 3e-3}});
  EXPECT_NEAR(line.seconds(1), 1e-6, 1e-7);
}

TEST(FitLine, IsTheLineOfLeastSquaresWhereErrorsCountInSeconds) {
  const LinkLine line = fit_line(std::vector<TimedTransfer>{{1, 3}, {2, 6}, {3, 6}}, FitErrors::in_seconds);
  EXPECT_NEAR(line.latency, 2, 1e-12);
  EXPECT_NEAR(line.bandwidth, 1 / 1.5, 1e-12);
  const LinkLine through_zero = fit_line(std::vector<TimedTransfer>{{1, 0.1}, {2, 4}, {3, 8}}, FitErrors::in_seconds);
  EXPECT_EQ(through_zero.latency, 0);
  EXPECT_NEAR(through_zero.bandwidth, 14 / 32.1, 1e-12);
}

TEST(FitLine, HasNoNegativeLatencyOrBandwidth) {
  const LinkLine steep = fit_line(std::vector<TimedTransfer>{{10, 1}, {20, 4}});
  EXPECT_EQ(steep.latency, 0);
  EXPECT_GT(steep.bandwidth, 0);
  const LinkLine flat = fit_line(std::vector<TimedTransfer>{{10, 2}, {20, 1}});
  EXPECT_TRUE(std::isinf(flat.bandwidth));
  EXPECT_GT(flat.latency, 0);
}

}  // namespace
}  // namespace stretto
