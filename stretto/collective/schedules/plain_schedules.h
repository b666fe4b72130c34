#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "stretto/collective/schedules/allreduce_schedule.h"
#include "stretto/schedule/schedule.h"

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

/// Schedules of the ordinary collectives, for any number P of ranks. They touch their given buffers from the moment a
/// round opens; sends may still be under way when it is complete.

/// Given: `data`, read on `root`, written elsewhere. A binomial tree: ⌈log2 P⌉ steps, P − 1 messages of all the data;
/// or of at most `piece` elements, one after the other to each rank, which passes each on, so that what else two ranks
/// send each other does not wait for long.
Schedule broadcast_schedule(int rank, int ranks, int root, DataType type, std::uint64_t count, std::uint64_t piece = 0);

/// Complete on a rank only when every rank has begun. Dissemination: ⌈log2 P⌉ messages a rank, without a body.
Schedule barrier_schedule(int rank, int ranks);

/// Given: `mine` of `count` elements, and `all` of P × count, which holds rank r's from r × count on in the end.
/// Bruck's algorithm, without its rotation: ⌈log2 P⌉ steps, at most two messages each, (P − 1) × count elements in all.
Schedule allgather_schedule(int rank, int ranks, DataType type, std::uint64_t count);

/// Given: `mine`, only read, and `sum`. See append_allreduce().
Schedule allreduce_schedule(int rank, int ranks, DataType type, std::uint64_t count, ReduceOp op,
                            AllreduceAlgorithm algorithm);

}  // namespace stretto
