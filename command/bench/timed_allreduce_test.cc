#include "command/bench/timed_allreduce.h"

#include <gtest/gtest.h>

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

TEST(MeasureAllreduce, KnowsEveryWay) {
  using Through = AllreduceOptions::Through;
  const std::vector<std::uint64_t> sizes = {4, 4096};
  for (const Through through : {Through::automatic, Through::messages, Through::exchange, Through::gather}) {
    for (const bool registered : {false, true}) {
      const AllreduceTiming timing{2ms, false, {through, registered}};
      const auto readings = measure_allreduce(2, timing, sizes);
      ASSERT_TRUE(readings.ok()) << readings.error().message;
      EXPECT_EQ(readings->size(), sizes.size());
    }
  }
  const auto boards = measure_allreduce(3, {2ms, false, {.seats = 2}}, sizes);
  ASSERT_TRUE(boards.ok()) << boards.error().message;
  EXPECT_EQ(boards->size(), sizes.size());
}

TEST(ExplainAllreduce, SaysOneThingASize) {
  const std::vector<std::uint64_t> sizes = {4, 4096};
  const auto lines = explain_allreduce(2, {AllreduceOptions::Through::messages}, sizes);
  ASSERT_TRUE(lines.ok()) << lines.error().message;
  EXPECT_EQ(*lines,
            (std::vector<std::string>{"allreduce of 1 float32 by sum over 2 ranks: messages (as asked for)",
                                      "allreduce of 1024 float32 by sum over 2 ranks: messages (as asked for)"}));
}

TEST(BusBandwidth, IsThatOfARing) {
  EXPECT_NEAR(bus_bandwidth(4, 1000, 2), 2.0 * 3 / 4 * 1000 / 2e-6 / 1e9, 1e-12);
  EXPECT_EQ(bus_bandwidth(1, 1000, 2), 0);
}

}  // namespace
}  // namespace stretto::command
