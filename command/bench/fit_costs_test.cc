#include "command/bench/fit_costs.h"

#include <gtest/gtest.h>

#include <vector>

namespace stretto::command {
namespace {

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
