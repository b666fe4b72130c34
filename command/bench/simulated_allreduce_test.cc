#include "command/bench/simulated_allreduce.h"

#include <gtest/gtest.h>

namespace stretto::command {
namespace {

constexpr LinkLine kLine{.latency = 25e-6, .bandwidth = 125e6};

double message_us(std::uint64_t bytes) {
  return 1e6 * kLine.seconds(static_cast<double>(sizeof(Envelope) + bytes));
}

TEST(SimulatedAllreduce, OfShortOnesTakesTheStepsOfRecursiveDoubling) {
  EXPECT_NEAR(simulated_allreduce_us(2, 1000, kLine), message_us(1000), 0.01);
  EXPECT_NEAR(simulated_allreduce_us(4, 1000, kLine), 2 * message_us(1000), 0.01);
  EXPECT_NEAR(simulated_allreduce_us(8, 8, kLine), 3 * message_us(8), 0.01);
}

TEST(SimulatedAllreduce, OfThreeHostsFoldsOne) {
  // What the first has of both others is on its way back to them a message later; long ones share its card.
  EXPECT_NEAR(simulated_allreduce_us(3, 1000, kLine), 2 * message_us(1000), 0.01);
  EXPECT_GT(simulated_allreduce_us(3, 100'000, kLine), 2.9 * message_us(100'000));
}

TEST(SimulatedAllreduce, OfLongOnesFillsTheLinksBothWays) {
  const double bytes = 32 << 20;
  for (const int hosts : {2, 4, 8}) {
    const double least = 1e6 * 2 * (hosts - 1) / hosts * bytes / kLine.bandwidth;
    const double found = simulated_allreduce_us(hosts, static_cast<std::uint64_t>(bytes), kLine);
    EXPECT_GE(found, least) << hosts;
    EXPECT_LE(found, 1.05 * least) << hosts;
  }
}

}  // namespace
}  // namespace stretto::command
