#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "stretto/board/full_board.h"
#include "stretto/collective/allreduce_schedule.h"
#include "stretto/collective/scheduled_collective.h"
#include "stretto/collective/seating.h"

namespace stretto {

/// Several boards of a host, with a schedule between them: each sums what its ranks bring, its leader reduces the sums
/// with the other leaders by messages, and publishes the result on its board. To the schedule a board is one rank.
///
/// Stepped as a FullBoard of all ranks, but that the leaders' schedule goes on only where somebody drives the engine.
class TwoLevelBoard {
 public:
  struct Shape {
    DataType type = DataType::float32;
    std::uint64_t count = 0;
    ReduceOp op = ReduceOp::sum;
    std::uint64_t piece_bytes = 64 << 10;                                 ///< FullBoard::Shape
    int seats = 1;                                                        ///< at each board; fewer at the last
    AllreduceAlgorithm between = AllreduceAlgorithm::recursive_doubling;  ///< among the leaders
  };

  static std::uint64_t bytes_needed(const Shape& shape, int ranks);

  /// `memory`: bytes_needed() of them for all boards, of engine.arena(). Registers with the engine.
  TwoLevelBoard(std::span<std::byte> memory, const Shape& shape, Engine& engine);

  std::byte* input() const { return board_.input(); }
  const std::byte* result() const { return board_.result(); }

  void arrive() { board_.arrive(); }
  /// Sums a piece, or does what the leader has to do between sum and result. Returns whether there was anything.
  bool step();
  bool complete() const { return board_.complete(); }
  /// Of any rank of the host.
  bool has_come(int rank) const;
  /// Whether what this rank waits for next are messages, which come when the engine is stepped.
  bool wants_messages() const { return exchanging_; }
  /// Why the schedule can never go on, if so.
  std::optional<Error> failure() const { return between_.failure(); }

  /// Of this rank's board, where it has seat().
  Sleepers& sleepers() { return board_.sleepers(); }
  int seat() const { return seating_.seat(); }

 private:
  static FullBoard::Shape board_shape(const Shape& shape, const Seating& seating, int board);
  std::span<std::byte> memory_of(int board) const;

  const std::span<std::byte> memory_;
  const Shape shape_;
  const Seating seating_;
  FullBoard board_;
  ScheduledCollective between_;
  bool exchanging_ = false;  // on a leader: the schedule runs
};

}  // namespace stretto
