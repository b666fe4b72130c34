#include "command/ordering/timed_oversleep.h"

#include <gtest/gtest.h>

namespace stretto::command {
namespace {

using namespace std::chrono_literals;

// The shape, not the times: this runs beside other tests.
TEST(MeasureOversleep, HasAValueForEachSleep) {
  for (const bool spins : {false, true}) {
    const Oversleeps measured = measure_oversleep({.beside = 2, .spins = spins, .asked = 1ms, .sleeps = 5});
    ASSERT_EQ(measured.seconds.size(), 5u);
    for (const double seconds : measured.seconds) EXPECT_GE(seconds, 0);
    EXPECT_GT(measured.processor, 0);
  }
}

TEST(MeasureOversleep, PausesAreSharesOfTheTime) {
  const SpinPauses pauses = measure_spin_pauses(50ms);
  for (const double share : {pauses.alone_share, pauses.short_share}) EXPECT_GE(share, 0);
  EXPECT_EQ(pauses.per_second == 0, pauses.seconds.empty());
  for (const double seconds : pauses.seconds) EXPECT_GE(seconds, 1e-3);
}

}  // namespace
}  // namespace stretto::command
