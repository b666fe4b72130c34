#pragma once

#include <cstdint>

#include "stretto/observe/round_header.h"

namespace stretto {

/// The facts of a contribution beside its numbers.
struct ContributionFacts {
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;
  std::uint64_t oldest_base = RoundHeader::kNoBase;
  std::uint64_t sum_of_bases = 0;
  RankTimes times;

  /// The facts of two deposits that have been added up.
  friend ContributionFacts operator+(const ContributionFacts& a, const ContributionFacts& b);
};

/// Enters the contribution of `rank` to `round` into a header that has none of this rank. `counts`: its batches and
/// times, too; of a standing deposit they count in one round only.
void enter(RoundHeader& header, std::uint64_t round, int rank, const ContributionFacts& facts, bool counts = true);

}  // namespace stretto
