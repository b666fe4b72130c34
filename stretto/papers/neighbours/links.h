#pragma once

#include <bit>
#include <vector>

namespace stretto {

/// The ranks that one rank sends to, and those that it receives from, in one round: its out- and its in-neighbours.
/// Ascending, each once, without the rank itself.
struct Links {
  std::vector<int> out;
  std::vector<int> in;
  friend bool operator==(const Links&, const Links&) = default;   ///< both lists are equal
  friend auto operator<=>(const Links&, const Links&) = default;  ///< some order, to look them up by
};

/// ⌈log2 ranks⌉, but at least 1: so many hops of lengths 1, 2, 4, … are shorter than once around.
inline int num_hops(int ranks) {
  return ranks <= 2 ? 1 : static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
}

/// `rank` and `hop` steps further around the ring of `ranks`. Requires: −ranks ≤ hop ≤ ranks.
inline int around(int rank, int hop, int ranks) {
  return (rank + hop + ranks) % ranks;
}

}  // namespace stretto
