#include "command/bench/ordering/timed_bookkeeping.h"

#include <gtest/gtest.h>

namespace stretto::command {
namespace {

// That steps are planned and take some time, not how long: this runs beside other tests.
TEST(MeasureBookkeeping, TakesSomeTime) {
  const double seconds = measure_bookkeeping(3);
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, 1);
}

}  // namespace
}  // namespace stretto::command
