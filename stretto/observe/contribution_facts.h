#pragma once

#include <cstdint>

#include "stretto/observe/round_header.h"

namespace stretto {

/// The facts of a contribution beside its numbers.
struct ContributionFacts {
  std::uint64_t batches = 0;                         ///< added up in it
  std::uint64_t samples = 0;                         ///< in these batches
  std::uint64_t oldest_base = RoundHeader::kNoBase;  ///< smallest number of rounds in the weights of a batch
  std::uint64_t sum_of_bases = 0;                    ///< over the batches
  RankTimes times;                                   ///< of the rank; its number is entered with the round

  /// The facts of two deposits that have been added up.
  friend ContributionFacts operator+(const ContributionFacts& a, const ContributionFacts& b);
};

/// \cond inner
/// Enters the contribution of `rank` to `round` into a header that has none of this rank. `counts`: its batches and
/// times, too; of a model that stands they count in one round only.
void enter(RoundHeader& header, std::uint64_t round, int rank, const ContributionFacts& facts, bool counts = true);
/// \endcond

}  // namespace stretto
