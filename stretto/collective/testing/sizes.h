#pragma once

namespace stretto {

/// For tests: the numbers of ranks with which a collective runs, and the largest for which each number is looked at.
inline constexpr int kSizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 33};
inline constexpr int kMostRanks = 64;

}  // namespace stretto
