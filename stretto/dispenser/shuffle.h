#pragma once

#include <cstddef>
#include <utility>

#include "stretto/base/random.h"

namespace stretto {

/// Every order of `range` is as likely (Fisher and Yates).
template <class Range>
void shuffle(Range& range, Random random) {
  for (std::size_t left = range.size(); left > 1; --left) {
    std::swap(range[left - 1], range[static_cast<std::size_t>(random.below(left))]);
  }
}

}  // namespace stretto
