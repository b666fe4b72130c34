#include "command/bench/link/timed_sharing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "stretto/base/random.h"

namespace stretto::command {
namespace {

TEST(FitUnevenness, IsNoneWhereBothEndTogether) {
  EXPECT_EQ(fit_unevenness(std::vector<SharedTransfer>{{0.1, 0.1}, {0.2, 0.2}}), 0);
}

TEST(FitUnevenness, OfOneRatioOfTheWeights) {
  // The first had three quarters of the card: a ratio of 3.
  const double deviation = std::log(3) / 0.6744897501960817 / std::sqrt(2);
  EXPECT_NEAR(fit_unevenness(std::vector<SharedTransfer>{{0.04, 0.06}}), std::sqrt(std::exp(deviation * deviation) - 1),
              1e-12);
}

TEST(FitUnevenness, FindsWhatWeightsWereDrawnWith) {
  for (const double unevenness : {0.05, 0.3, 1.0}) {
    Random random(3);
    std::vector<SharedTransfer> transfers;
    for (int i = 0; i < 20'000; ++i) {
      const double a = random.log_normal(1, unevenness), b = random.log_normal(1, unevenness);
      transfers.push_back({(a + b) / std::max(a, b), 2});
    }
    EXPECT_NEAR(fit_unevenness(transfers) / unevenness, 1, 0.03) << unevenness;
  }
}

TEST(FitUnevenness, APauseOfTheMachineChangesNothing) {
  EXPECT_EQ(fit_unevenness(std::vector<SharedTransfer>{{0.1, 0.1}, {0.1, 0.1}, {0.1, 3}}), 0);
  EXPECT_EQ(fit_unevenness(std::vector<SharedTransfer>{{0.1, 0.2}}), 10) << "one behind the other";
}

}  // namespace
}  // namespace stretto::command
