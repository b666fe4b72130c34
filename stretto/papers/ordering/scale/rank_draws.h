#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stretto/base/random.h"

namespace stretto {

/// The random numbers of the ranks of a prediction: each has a sequence of its own for each purpose, so that a scheme
/// that draws more of the one does not change the other.
struct RankDraws {
  RankDraws(std::uint64_t seed, std::size_t ranks)
      : pauses(of_ranks(seed, 0, ranks)), preemptions(of_ranks(seed, 1, ranks)), oversleeps(of_ranks(seed, 2, ranks)) {}

  std::vector<Random> pauses;       ///< of the computation
  std::vector<Random> preemptions;  ///< of the scheduling thread, beside a spinning one
  std::vector<Random> oversleeps;   ///< of the background thread

 private:
  static std::vector<Random> of_ranks(std::uint64_t seed, std::uint64_t purpose, std::size_t ranks) {
    constexpr int kMostRanksBits = 40;
    std::vector<Random> out;
    out.reserve(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) out.emplace_back(seed, (purpose << kMostRanksBits) + rank);
    return out;
  }
};

}  // namespace stretto
