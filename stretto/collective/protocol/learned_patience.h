#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// How long an adaptive deadline waits after the first arrival: median + 3·MAD of the times by which the last 256
/// arrivals came after the first of their round.
class LearnedPatience {
 public:
  /// The arrivals of one round, in any order.
  void learn(std::span<const TimePoint> arrivals);
  Duration get() const;

 private:
  std::vector<double> offsets_;  // in seconds; a ring
  std::size_t next_ = 0;
};

}  // namespace stretto
