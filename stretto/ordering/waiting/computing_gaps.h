#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "stretto/base/clock.h"
#include "stretto/ordering/waiting/rank_patience.h"

namespace stretto {

/// How long the application computes between two tensors of a step. One thread.
class ComputingGaps {
 public:
  /// Tensors of the step were submitted since the last look. Does not count the time since then if the application has
  /// waited in it, for whatever process set.
  void submitted(TimePoint now, const RankPatience& patience) {
    const bool computed = last_ && !waited_ && patience.waits_begun() == waits_begun_;
    if (computed) longest_ = std::max(longest_, now - *last_);
    last_ = now;
    waited_ = patience.waiting() != nullptr;
    waits_begun_ = patience.waits_begun();
  }
  Duration longest() const { return longest_; }  ///< of the step
  /// The next step begins.
  void clear() { *this = {}; }

 private:
  Duration longest_{0};
  std::optional<TimePoint> last_;
  bool waited_ = false;            // then
  std::uint64_t waits_begun_ = 0;  // until then
};

}  // namespace stretto
