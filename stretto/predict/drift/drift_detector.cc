#include "stretto/predict/drift/drift_detector.h"

#include <cmath>

namespace stretto {

DriftDetector::Turn DriftDetector::take(double rate) {
  constexpr int kInARow = 2;
  const double off = rate - predicted_, limit = kLeft * predicted_;
  const auto count = [](int& in_a_row, bool one_more) { in_a_row = one_more ? in_a_row + 1 : 0; };
  count(low_, off < -limit);
  count(high_, off > limit);
  if (!drifting_) return low_ == kInARow || high_ == kInARow ? leave(rate) : Turn::none;
  count(near_, std::abs(off) <= kBack * predicted_);
  count(away_, std::abs(rate - level_) > kLeft * level_);
  if (near_ == kInARow) return come_back();
  if (away_ < kInARow) return Turn::none;
  return low_ >= kInARow || high_ >= kInARow ? leave(rate) : come_back();
}

DriftDetector::Turn DriftDetector::leave(double rate) {
  drifting_ = true;
  level_ = rate;
  forget();
  return Turn::left;
}

DriftDetector::Turn DriftDetector::come_back() {
  drifting_ = false;
  forget();
  return Turn::back;
}

}  // namespace stretto
