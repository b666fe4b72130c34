#pragma once

#include <cstddef>
#include <vector>

#include "stretto/observe/round_header.h"

namespace stretto {

/// The deposits that a rank takes from one world to the next: PartialAllreduce::take_out() copies them,
/// PartialAllreduce::put_in() makes them again.
struct Carried {
  /// One deposit, or several that were added up.
  struct Deposit {
    ContributionFacts facts;                      ///< its bases count the rounds of the job
    std::vector<std::vector<std::byte>> buckets;  ///< a copy of each
  };
  std::vector<Deposit> deposits;  ///< oldest first
};

}  // namespace stretto
