#include "command/bench/timed_overlap.h"

#include <gtest/gtest.h>

namespace stretto::command {
namespace {

using namespace std::chrono_literals;

TEST(HiddenShare, IsOfTheShorter) {
  EXPECT_DOUBLE_EQ(hidden_share(20, 5, 20), 1);
  EXPECT_DOUBLE_EQ(hidden_share(20, 5, 25), 0);
  EXPECT_DOUBLE_EQ(hidden_share(5, 20, 22.5), 0.5);
  EXPECT_DOUBLE_EQ(hidden_share(5, 20, 30), -1);
}

// Facts that hold on a busy machine, too.
TEST(MeasureOverlap, StepsTakeAtLeastTheSlowestRanksWork) {
  const std::vector<std::uint64_t> sizes = {64, 1 << 16};
  const auto readings = measure_overlap(3, {.steps = 2, .buckets = 4, .work = 2ms, .skew = 1ms}, sizes);
  ASSERT_TRUE(readings.ok()) << readings.error().message;
  ASSERT_EQ(readings->size(), 2u);
  for (const Reading& reading : *readings) {
    EXPECT_GE(reading.values[0], 4);
    EXPECT_GT(reading.values[1], 0);
    EXPECT_GT(reading.values[2], 0);
    EXPECT_GE(reading.values[3], 4);
    EXPECT_GE(reading.values[4], 4);
  }
}

}  // namespace
}  // namespace stretto::command
