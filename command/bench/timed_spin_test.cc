#include "command/bench/timed_spin.h"

#include <gtest/gtest.h>

namespace stretto::command {
namespace {

using namespace std::chrono_literals;

// The shape, not the times: this runs beside other tests.
TEST(MeasureSpin, ReportsEverySize) {
  const std::vector<std::uint64_t> sizes = {4, 4096};
  const auto readings = measure_spin(3, {.pairs = 2, .work = 2ms}, sizes);
  ASSERT_TRUE(readings.ok()) << readings.error().message;
  ASSERT_EQ(readings->size(), 2u);
  EXPECT_EQ((*readings)[1].bytes, 4096u);
  for (const double value : (*readings)[1].values) EXPECT_GT(value, 0);
}

}  // namespace
}  // namespace stretto::command
