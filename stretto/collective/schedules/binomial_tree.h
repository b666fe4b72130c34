#pragma once

#include <bit>
#include <vector>

namespace stretto {

/// One rank's place in the binomial tree over `ranks` ranks: P − 1 edges, ⌈log2 P⌉ deep.
struct BinomialTree {
  int parent = -1;            ///< −1: this rank is the root
  std::vector<int> children;  ///< the one with the largest subtree first
};

/// Requires: 0 ≤ rank, root < ranks.
inline BinomialTree binomial_tree(int rank, int ranks, int root) {
  BinomialTree tree;
  const int place = (rank - root + ranks) % ranks;  // in the tree, whose root is 0
  const auto rank_at = [&](int other) { return (other + root) % ranks; };
  // A rank hangs below the one without its lowest bit; below it hang those that differ in one bit lower still.
  const int lowest = place == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) : place & -place;
  if (place != 0) tree.parent = rank_at(place - lowest);
  for (int distance = lowest / 2; distance > 0; distance /= 2) {
    if (place + distance < ranks) tree.children.push_back(rank_at(place + distance));
  }
  return tree;
}

}  // namespace stretto
