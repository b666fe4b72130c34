#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stretto {

/// A partition of ranks: of each rank, the number of its group.
using Partition = std::vector<int>;

/// Numbers the groups anew, from 0 on in the order of their lowest ranks. Requires: numbers below that of ranks.
void number_by_appearance(Partition& partition);

/// The ranks of each group, ascending. Requires: each number up to the largest has a rank.
std::vector<std::vector<int>> groups_of(const Partition& partition);

/// Of each rank, the ranks whose values have reached it: a bit each.
class Reach {
 public:
  /// Each rank's own value has reached it, and no other.
  explicit Reach(int ranks);

  /// The ranks of each group of these partitions tell each other at the same time what had reached them before. False
  /// if nothing has become known to anybody.
  bool exchange(std::span<const Partition> partitions);
  /// Whether all values have reached all ranks.
  bool everywhere() const;

 private:
  std::size_t ranks_;
  std::size_t words_;
  std::vector<std::uint64_t> of_rank_, before_, of_group_;
};

}  // namespace stretto
