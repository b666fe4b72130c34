#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "stretto/board/open_round.h"
#include "stretto/kernel/combine.h"

namespace stretto {

/// The part of a PartialBoard that sums: claims a piece, adds the sources that the plan lists, and releases the piece.
class PartialSum {
 public:
  explicit PartialSum(OpenRound& at);

  /// Every piece is to be looked at again.
  void begin() { looked_ = 0; }
  BoardStep find_piece();
  BoardStep sum();
  BoardStep release();

 private:
  bool ready(std::size_t bucket);
  const Combination& combination(std::size_t sources);

  OpenRound& at_;
  std::uint64_t next_piece_;  // where this rank looks for one
  std::uint64_t looked_ = 0;  // pieces since it has found one
  std::uint64_t piece_ = 0;   // the one it has claimed
  std::uint64_t held_bits_ = 0;
  std::uint64_t from_ = 0;  // sources that are in the piece
  bool finishes_ = false;
  std::size_t ready_buckets_ = 0;  // of ready_round_
  Round ready_round_ = 0;
  std::vector<const std::byte*> sources_;          // of the piece
  std::vector<std::optional<Combination>> trees_;  // by number of sources
  std::optional<Combination> fixed_;               // of fixed_round_, by its sources of fixed_ranks_
  std::vector<int> fixed_ranks_;
  std::vector<int> ranks_;  // of the sources of a round
  Round fixed_round_ = 0;
};

}  // namespace stretto
