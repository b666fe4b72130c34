#include "command/timed_allreduce.h"

#include <gtest/gtest.h>

#include "command/bench_allreduce.h"

namespace stretto::command {
namespace {

using namespace std::chrono_literals;

TEST(MeasureAllreduce, TimesEverySize) {
  const std::vector<std::uint64_t> sizes = {4, 4096, 2 << 20};
  for (const bool each_call : {false, true}) {
    const AllreduceTiming timing{2ms, each_call};
    const auto readings = measure_allreduce(3, timing, sizes);
    ASSERT_TRUE(readings.ok()) << readings.error().message;
    ASSERT_EQ(readings->size(), sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ((*readings)[i].ranks, 3);
      EXPECT_EQ((*readings)[i].bytes, sizes[i]);
      ASSERT_EQ((*readings)[i].values.size(), num_values(timing));
      EXPECT_GE((*readings)[i].values[0], 1);
      for (const double value : (*readings)[i].values) EXPECT_GT(value, 0);
      if (each_call) {
        EXPECT_LE((*readings)[i].values[2], (*readings)[i].values[3]);
      }
    }
  }
}

TEST(BusBandwidth, IsThatOfARing) {
  EXPECT_NEAR(bus_bandwidth(4, 1000, 2), 2.0 * 3 / 4 * 1000 / 2e-6 / 1e9, 1e-12);
  EXPECT_EQ(bus_bandwidth(1, 1000, 2), 0);
}

}  // namespace
}  // namespace stretto::command
