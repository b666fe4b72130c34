#include "stretto/collective/protocol/learned_patience.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stretto {
namespace {

constexpr std::size_t kRememberedArrivals = 256;
constexpr double kMadFactor = 3;  // k of median + k·MAD

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void LearnedPatience::learn(std::span<const TimePoint> arrivals) {
  if (arrivals.empty()) return;
  const TimePoint first = *std::min_element(arrivals.begin(), arrivals.end());
  for (const TimePoint& time : arrivals) {
    const double offset = seconds(time - first);
    if (offsets_.size() < kRememberedArrivals) {
      offsets_.push_back(offset);
    } else {
      offsets_[next_++ % kRememberedArrivals] = offset;
    }
  }
}

Duration LearnedPatience::get() const {
  if (offsets_.empty()) return Duration::zero();
  const double middle = median(offsets_);
  std::vector<double> deviations;
  deviations.reserve(offsets_.size());
  for (double offset : offsets_) deviations.push_back(std::abs(offset - middle));
  return from_seconds(middle + kMadFactor * median(std::move(deviations)));
}

}  // namespace stretto
