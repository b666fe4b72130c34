#include "command/bench/timed_allreduce.h"

#include <gtest/gtest.h>

#include <vector>

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
  const auto lines = explain_allreduce(2, {.options = {AllreduceOptions::Through::messages}}, sizes);
  ASSERT_TRUE(lines.ok()) << lines.error().message;
  EXPECT_EQ(*lines,
            (std::vector<std::string>{"allreduce of 1 float32 by sum over 2 ranks: messages (as asked for)",
                                      "allreduce of 1024 float32 by sum over 2 ranks: messages (as asked for)"}));
}

TEST(BusBandwidth, IsThatOfARing) {
  EXPECT_NEAR(bus_bandwidth(4, 1000, 2), 2.0 * 3 / 4 * 1000 / 2e-6 / 1e9, 1e-12);
  EXPECT_EQ(bus_bandwidth(1, 1000, 2), 0);
}

using Way = AllreduceChoice::Way;

// The measurements of a machine with these costs.
std::vector<MeasuredCall> calls_with(const AllreduceCosts& costs, const std::vector<int>& ranks) {
  std::vector<MeasuredCall> out;
  for (const int n : ranks) {
    for (const std::uint64_t bytes : {8u, 4096u, 65536u, 524288u, 4194304u, 16777216u}) {
      for (const bool registered : {false, true}) {
        for (const Way way : {Way::exchange, Way::gather}) {
          const AllreduceTask task{bytes, n, 2, registered};
          out.push_back({way, task, predicted_us(way, task, costs)});
        }
      }
    }
  }
  return out;
}

TEST(FitCosts, FindsThoseThatWereMeasured) {
  const AllreduceCosts costs{.hand_off = 0.3,
                             .turn = 2,
                             .start = 0.07,
                             .sum_rate = 30000,
                             .move_rate = 5000,
                             .cache = 8 << 20,
                             .memory_rate = 20000};
  const AllreduceCosts fitted = fit_costs(calls_with(costs, {2, 4, 8}));
  EXPECT_NEAR(fitted.hand_off, costs.hand_off, 1e-3);
  EXPECT_NEAR(fitted.turn, costs.turn, 1e-3);
  EXPECT_NEAR(fitted.start, costs.start, 1e-3);
  EXPECT_NEAR(fitted.sum_rate, costs.sum_rate, 30);
  EXPECT_NEAR(fitted.move_rate, costs.move_rate, 5);
  EXPECT_EQ(fitted.cache, costs.cache);
  EXPECT_NEAR(fitted.memory_rate, costs.memory_rate, 20);
}

TEST(FitCosts, KeepsWhatWasNotMeasured) {
  const AllreduceCosts fitted = fit_costs(calls_with({.hand_off = 0.3, .turn = 9}, {2}));
  EXPECT_EQ(fitted.turn, AllreduceCosts{}.turn) << "two ranks on two cores wait for no turn";
  EXPECT_NEAR(fitted.hand_off, 0.3, 1e-3);
}

TEST(FitCosts, StaysAboveZero) {
  std::vector<MeasuredCall> calls = calls_with({}, {2, 4});
  for (MeasuredCall& call : calls) {
    if (call.task.bytes == 8) call.microseconds = 1e-6;
  }
  const AllreduceCosts fitted = fit_costs(calls);
  for (const double cost :
       {fitted.hand_off, fitted.turn, fitted.start, fitted.sum_rate, fitted.move_rate, fitted.memory_rate}) {
    EXPECT_GT(cost, 0);
    EXPECT_LT(cost, 1e8);
  }
}

}  // namespace

}  // namespace stretto::command
