#include "command/bench/grid/timed_grid.h"

#include <gtest/gtest.h>

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

TEST(MeasureGrid, TimesRoundsAndPlainMessages) {
  for (const ElasticUpdate update : {ElasticUpdate::paper, ElasticUpdate::carry}) {
    for (const Duration pace : {Duration(0), Duration(1ms)}) {
      const GridTiming timing{.options = {.grid = {}, .line = {.update = update}}, .pace = pace, .time = 60ms};
      const auto reading = measure_grid(4, 1000, timing);
      ASSERT_TRUE(reading.ok()) << reading.error().message;
      EXPECT_EQ(reading->ranks, 4);
      EXPECT_EQ(reading->bytes, 4000u);
      ASSERT_EQ(reading->values.size(), kGridColumns);
      EXPECT_GT(reading->values[kWireRate], 0);
      EXPECT_EQ(reading->values[kGridComputing] > 0, pace > Duration(0));
      EXPECT_EQ(reading->values[kGridStep] >= 1, pace > Duration(0)) << "of 1 ms at least";
      EXPECT_GE(reading->values[kGridMissing], 0);
      EXPECT_LE(reading->values[kGridMissing], 100);
      EXPECT_NEAR(reading->values[kWireShare], 100 * reading->values[kGridRate] / reading->values[kWireRate], 1e-9);
    }
  }
}

TEST(MeasureGrid, ZerosOfTheModelAreLeftOutWhereThatIsAskedFor) {
  GridTiming timing{.pace = 1ms, .on_core = true, .zeros = 0.9, .time = 100ms};
  const double plain = measure_grid(4, 100'000, timing).value().values[kRoundBytes];
  timing.options.line.compression = Compression::zeros;
  const double short_one = measure_grid(4, 100'000, timing).value().values[kRoundBytes];
  EXPECT_LT(short_one, 0.2 * plain) << "of 13.2 %; rounds at both ends are not whole";
}

TEST(MeasureGrid, TheRooflineIsThatOfThePaper) {
  // Section 4.2: 2.48 Gbit/s both ways; 62,378,344 numbers, 1004 rounds of two nodes in 3374.439 s.
  const double roofline = roofline_additions(1.24e9 / 8);
  EXPECT_NEAR(roofline, 19.375e6, 1);
  EXPECT_NEAR(1004 * additions_of_round(2, 62'378'344) / 3374.439 / roofline, 0.479, 5e-4);
  EXPECT_NEAR(4274 * additions_of_round(4, 62'378'344) / 16061.724 / roofline, 0.643, 5e-4);
}

}  // namespace

}  // namespace stretto::command
