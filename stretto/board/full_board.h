#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "stretto/base/data_type.h"
#include "stretto/board/sleepers.h"
#include "stretto/kernel/combine.h"

namespace stretto {

/// A board on which the ranks of one host sum their inputs: each rank puts its input on the board, the ranks that wait
/// sum pieces, and all read the one result. Sums by the fixed tree (docs/protocol.md, Bits), so that a round repeats to
/// the bit. With Shape::upward the sum is one board's contribution to several boards', and the round is complete when
/// rank 0 has published their result.
///
/// A step machine over memory handed in; it never waits, sleeps or allocates. One object a rank, one thread at a time.
/// A rank holds at most the one piece it has claimed: should it be put to sleep there, the others sum the rest.
class FullBoard {
 public:
  struct Shape {
    DataType type = DataType::float32;
    std::uint64_t count = 0;
    ReduceOp op = ReduceOp::sum;
    std::uint64_t piece_bytes = 64 << 10;  ///< bytes that one rank sums at a time; a multiple of 64
    int helpers = 1;                       ///< sleeping ranks that the last to come wakes, to sum with it
    bool ring_each = false;                ///< rings each rank that sleeps, as where they are simulated
    bool upward = false;                   ///< the sum is not the result yet: rank 0 takes it, and publishes one

    std::uint64_t bytes() const { return count * size_of(type); }
    std::uint64_t pieces() const { return bytes() == 0 ? 1 : (bytes() + piece_bytes - 1) / piece_bytes; }
  };

  static std::uint64_t bytes_needed(const Shape& shape, int ranks);

  /// `memory`: bytes_needed() of them, zero before the first rank comes, the same for all ranks. `ring` wakes a rank.
  FullBoard(std::span<std::byte> memory, const Shape& shape, int rank, int ranks, std::function<void(int rank)> ring);

  /// This rank's input to the next round; its own to write until arrive().
  std::byte* input() const { return input_of(rank_); }
  /// The sum of the last round that is complete; valid until this rank arrives again.
  const std::byte* result() const { return result_; }

  /// The input is there: the next round is summed once all have come. Requires: complete().
  void arrive();
  /// Sums a piece if there is one to sum. Returns whether it did.
  bool step();
  /// Whether the round this rank has arrived at is complete (or it has arrived at none).
  bool complete() const;
  /// Rounds that this rank has arrived at.
  std::uint64_t rounds() const { return rounds_; }
  /// Whether `rank` has come to the round this rank waits for, or may have; or has arrived at so many rounds, which any
  /// thread may ask.
  bool has_come(int rank) const { return has_come(rank, rounds_); }
  bool has_come(int rank, std::uint64_t rounds) const;

  /// Shape::upward: whether all that this board's ranks bring to the round is summed, in sum(). From then on rank 0
  /// writes the result to outcome() and publishes it; sum() is its to read until then.
  bool has_sum() const;
  std::byte* sum() const { return sum_; }
  std::byte* outcome() const { return result_; }
  void publish();

  /// The rank that completes the round rings the sleepers in here; the rank that completes the sum rings rank 0. Go in,
  /// and look at complete() once more before sleeping.
  Sleepers& sleepers();

 private:
  struct Words;
  struct Seat;

  Seat& seat_of(int rank) const;
  std::byte* input_of(int rank) const { return inputs_ + static_cast<std::uint64_t>(rank) * stride_; }
  bool all_have_come() const;
  void sum_piece(std::uint64_t piece);
  void wake_all();

  const Shape shape_;
  const int rank_;
  const int ranks_;
  const std::uint64_t pieces_;
  const std::uint64_t stride_;  // from one input to the next
  const Combination tree_;
  const std::function<void(int)> ring_;
  Words& words_;
  std::byte* const seats_;
  std::byte* const inputs_;
  std::byte* const result_;
  std::byte* const sum_;                         // the result, unless the sum goes upward
  const std::atomic<std::uint64_t>& completed_;  // pieces, of all rounds, that are part of a result
  std::uint64_t rounds_ = 0;                     // this rank has arrived at
  std::vector<const std::byte*> sources_;        // of the piece being summed
};

}  // namespace stretto
