#pragma once

#include <cstdint>

#include "stretto/observe/round_header.h"

namespace stretto {

/// What is known about a contribution beside its numbers.
struct ContributionFacts {
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;
  std::uint64_t oldest_base = RoundHeader::kNoBase;
  std::uint64_t sum_of_bases = 0;
  RankTimes times;

  /// Of both together.
  friend ContributionFacts operator+(const ContributionFacts& a, const ContributionFacts& b);
};

/// Enters what `rank` brings to `round` into an empty header or one of other ranks. `counts`: its batches and times,
/// too, which a standing deposit brings once.
void enter(RoundHeader& header, std::uint64_t round, int rank, const ContributionFacts& facts, bool counts = true);

}  // namespace stretto
