#include "stretto/predict/fine/steady_rate.h"

#include <algorithm>
#include <cstddef>

namespace stretto {

Window measured_window(std::span<const double> ends) {
  return {ends[(ends.size() - 1) / 10], ends.back()};
}

double steady_rate(std::span<const double> ends, const Window& window) {
  const auto first = std::ranges::lower_bound(ends, window.begin);
  const auto behind = std::ranges::upper_bound(ends, window.end);
  const auto steps = static_cast<double>(behind - first - 1);
  if (steps >= 1) return steps / (*(behind - 1) - *first);
  // Slower than the window is long: at most one step ended there.
  return static_cast<double>(behind - first) / (window.end - window.begin);
}

}  // namespace stretto
