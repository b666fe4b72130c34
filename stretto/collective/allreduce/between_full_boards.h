#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "stretto/board/full_board.h"
#include "stretto/collective/rounds/seating.h"
#include "stretto/collective/scheduled_collective.h"
#include "stretto/collective/schedules/allreduce_schedule.h"

namespace stretto {

/// Ties one FullBoard of an allreduce to the other boards of its job: a part of BoardAllreduce, which has none where
/// there is one board. Each board sums its ranks' inputs (FullBoard::Shape::upward). Its leader reduces the sums with
/// the other leaders by messages, and publishes the result on its board. To the schedule between the boards a board is
/// one rank.
class BetweenFullBoards {
 public:
  /// Registers with the engine, on every rank. `seating` and `board`, which is this rank's, outlive this object.
  BetweenFullBoards(Engine& engine, const Seating& seating, const FullBoard::Shape& shape, AllreduceAlgorithm algorithm,
                    FullBoard& board);

  /// On a leader, does the next step between sum and result. Returns whether there was one. The schedule goes on only
  /// while the leader's engine is stepped.
  bool step();
  /// Whether this rank, a leader, waits for messages next, which come when its engine is stepped.
  bool wants_messages() const { return exchanging_; }
  /// Why the schedule can never go on, if so.
  std::optional<Error> failure() const { return between_.failure(); }

 private:
  const Seating& seating_;
  const FullBoard::Shape shape_;
  FullBoard& board_;
  ScheduledCollective between_;
  bool exchanging_ = false;  // on a leader: the schedule runs
};

}  // namespace stretto
