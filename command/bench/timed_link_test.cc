#include "command/bench/timed_link.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "stretto/base/random.h"

namespace stretto::command {
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

TEST(FitUnevenness, IsNoneWhereBothEndTogether) {
  const Unevenness found = fit_unevenness(std::vector<SharedTransfer>{{4, 0.1, 0.1}, {8, 0.2, 0.2}});
  EXPECT_EQ(found.of_weights, 0);
  EXPECT_EQ(found.grain, 0);
}

TEST(FitUnevenness, OfOneRatioOfTheWeights) {
  // The first had three quarters of the card: a ratio of 3.
  const double deviation = std::log(3) / 0.6744897501960817 / std::sqrt(2);
  const Unevenness found = fit_unevenness(std::vector<SharedTransfer>{{4, 0.04, 0.06}, {8, 0.08, 0.12}});
  EXPECT_NEAR(found.of_weights, std::sqrt(std::exp(deviation * deviation) - 1), 1e-9);
  EXPECT_NEAR(found.grain, 0, 1e-9);
}

TEST(FitUnevenness, FindsWhatWeightsWereDrawnWith) {
  for (const double unevenness : {0.05, 0.3, 1.0}) {
    Random random(3);
    std::vector<SharedTransfer> transfers;
    for (const double both : {1, 2}) {
      for (int i = 0; i < 20'000; ++i) {
        const double a = random.log_normal(1, unevenness), b = random.log_normal(1, unevenness);
        transfers.push_back({static_cast<std::uint64_t>(both), both * (a + b) / std::max(a, b) / 2, both});
      }
    }
    EXPECT_NEAR(fit_unevenness(transfers).of_weights / unevenness, 1, 0.03) << unevenness;
  }
}

TEST(FitUnevenness, WhatMessagesOfAnyLengthAreApartIsTheGrain) {
  const Unevenness found =
      fit_unevenness(std::vector<SharedTransfer>{{4, 0.1, 0.1005}, {8, 0.2, 0.2005}, {16, 0.4, 0.4005}});
  EXPECT_NEAR(found.of_weights, 0, 1e-6);
  EXPECT_NEAR(found.grain, 0.0005, 1e-9);
  // Independent of each other, they add up by their squares.
  const auto apart = [](double both) { return both - std::hypot(0.001, 0.01 * both); };
  const Unevenness of_both =
      fit_unevenness(std::vector<SharedTransfer>{{4, apart(0.1), 0.1}, {8, apart(0.2), 0.2}, {16, apart(0.4), 0.4}});
  EXPECT_NEAR(of_both.grain, 0.001, 1e-9);
  const Unevenness alone = fit_unevenness(std::vector<SharedTransfer>{{4, 0.099, 0.1}, {8, 0.198, 0.2}});
  EXPECT_NEAR(of_both.of_weights, alone.of_weights, 1e-9);
}

TEST(FitUnevenness, APauseOfTheMachineChangesNothing) {
  EXPECT_EQ(
      fit_unevenness(std::vector<SharedTransfer>{{4, 0.1, 0.1}, {4, 0.1, 0.1}, {4, 0.1, 3}, {8, 0.2, 0.2}}).of_weights,
      0);
  EXPECT_EQ(fit_unevenness(std::vector<SharedTransfer>{{4, 0.1, 0.2}, {8, 0.2, 0.4}}).of_weights, 10)
      << "one behind the other";
}

TEST(BySize, TellsTheMiddleOnes) {
  const auto sizes = by_size(std::vector<SharedTransfer>{{8, 2, 3}, {4, 1, 1}, {4, 2, 5}, {4, 3, 4}});
  ASSERT_EQ(sizes.size(), 2u);
  EXPECT_EQ(sizes[0].bytes, 4u);
  EXPECT_EQ(sizes[0].first, 2);
  EXPECT_EQ(sizes[0].last, 4);
  EXPECT_EQ(sizes[0].transfers, 3u);
  EXPECT_EQ(sizes[1].last, 3);
}

}  // namespace

}  // namespace stretto::command
