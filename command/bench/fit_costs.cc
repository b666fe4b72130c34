#include "command/bench/fit_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

namespace stretto::command {

namespace {

// A prediction is a sum of costs times how often they occur: linear in the times and in the inverse of the rates. Only
// what fits into the cache is not, and tried out.
constexpr std::size_t kCosts = 6;
using Costs = std::array<double, kCosts>;  // hand_off, turn, start, 1/sum_rate, 1/move_rate, 1/memory_rate

constexpr Costs kLeast = {1e-4, 1e-4, 1e-4, 1e-7, 1e-7, 1e-7};            // a file has numbers above 0
constexpr std::array<int, 9> kCaches = {1, 2, 4, 8, 12, 16, 24, 32, 64};  // MiB
constexpr int kMostSweeps = 20'000;
constexpr double kNearEnough = 1e-9;  // relative change of a sweep

AllreduceCosts to_costs(const Costs& x, double cache) {
  return {.hand_off = x[0],
          .turn = x[1],
          .start = x[2],
          .sum_rate = 1 / x[3],
          .move_rate = 1 / x[4],
          .cache = cache,
          .memory_rate = 1 / x[5]};
}

Costs to_linear(const AllreduceCosts& costs) {
  return {costs.hand_off, costs.turn, costs.start, 1 / costs.sum_rate, 1 / costs.move_rate, 1 / costs.memory_rate};
}

// How often each cost occurs in the call, over the call's time: multiplied by the costs this should be 1.
Costs row_of(const MeasuredCall& call, double cache) {
  Costs row{};
  for (std::size_t j = 0; j < kCosts; ++j) {
    Costs one{};
    one[j] = 1;
    row[j] = predicted_us(call.way, call.task, to_costs(one, cache)) / call.microseconds;
  }
  return row;
}

struct Fit {
  AllreduceCosts costs;
  double squares = 0;  // of the relative errors, their sum
};

Fit fit_with(std::span<const MeasuredCall> calls, double cache) {
  std::vector<Costs> rows;
  for (const MeasuredCall& call : calls) rows.push_back(row_of(call, cache));
  Costs x = to_linear({});
  const auto predicted = [&x](const Costs& row) { return std::inner_product(row.begin(), row.end(), x.begin(), 0.0); };
  // Coordinate descent: the problem is convex, and the bounds are those of each cost by itself.
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double change = 0;
    for (std::size_t j = 0; j < kCosts; ++j) {
      double product = 0;
      double square = 0;
      for (const Costs& row : rows) {
        product += row[j] * (1 - predicted(row) + row[j] * x[j]);
        square += row[j] * row[j];
      }
      if (square == 0) continue;
      const double next = std::max(kLeast[j], product / square);
      change = std::max(change, std::abs(next - x[j]) / next);
      x[j] = next;
    }
    if (change < kNearEnough) break;
  }
  Fit out{to_costs(x, cache)};
  for (const Costs& row : rows) out.squares += (predicted(row) - 1) * (predicted(row) - 1);
  return out;
}

}  // namespace

AllreduceCosts fit_costs(std::span<const MeasuredCall> calls) {
  Fit best{{}, std::numeric_limits<double>::infinity()};
  for (const int mebibytes : kCaches) {
    const Fit fit = fit_with(calls, mebibytes * 1024.0 * 1024.0);
    if (fit.squares < best.squares) best = fit;
  }
  return best.costs;
}

}  // namespace stretto::command
