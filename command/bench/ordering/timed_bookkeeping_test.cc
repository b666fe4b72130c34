#include "command/bench/ordering/timed_bookkeeping.h"

#include <gtest/gtest.h>

#include "stretto/base/clock.h"

namespace stretto::command {
namespace {

// However long steps take, and whatever runs beside this: one of them takes a part of the time of all.
TEST(MeasureBookkeeping, TakesSomeTime) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  const double taken = measure_bookkeeping(3);
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, seconds(clock.now() - begin));
}

}  // namespace
}  // namespace stretto::command
