#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace stretto {

/// The number below which a share `p` of `values` lies, linear between the order statistics (Hyndman and Fan's type 7).
/// NaN where there are none. Requires: 0 ≤ p ≤ 1.
inline double quantile(std::span<const double> values, double p) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> ordered(values.begin(), values.end());
  std::ranges::sort(ordered);
  const double position = p * static_cast<double>(ordered.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, ordered.size() - 1);
  return ordered[below] + (position - static_cast<double>(below)) * (ordered[above] - ordered[below]);
}

}  // namespace stretto
