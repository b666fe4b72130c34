#include "stretto/predict/drift/drift_detector.h"

#include <cmath>

namespace stretto {

DriftDetector::Turn DriftDetector::take(double rate) {
  constexpr int kInARow = 2;
  const double off = rate - predicted_, left = kLeft * predicted_;
  if (drifting_) {
    odd_ = std::abs(off) <= kBack * predicted_ ? odd_ + 1 : 0;
  } else if (off > left) {
    odd_ = odd_ > 0 ? odd_ + 1 : 1;
  } else if (off < -left) {
    odd_ = odd_ < 0 ? odd_ - 1 : -1;
  } else {
    odd_ = 0;
  }
  if (std::abs(odd_) < kInARow) return Turn::none;
  odd_ = 0;
  drifting_ = !drifting_;
  return drifting_ ? Turn::left : Turn::back;
}

}  // namespace stretto
