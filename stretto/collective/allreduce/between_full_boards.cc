#include "stretto/collective/allreduce/between_full_boards.h"

#include <string>

#include "stretto/collective/schedules/plain_schedules.h"

namespace stretto {
namespace {

/// A rank that does not lead runs no schedule, but takes part in comparing the collectives of all ranks.
Schedule schedule_between(const FullBoard::Shape& shape, const Seating& seating, AllreduceAlgorithm algorithm) {
  if (!seating.leads()) {
    ScheduleBuilder b("allreduce", seating.rank(), seating.ranks());
    return b.build(b.nop({}));
  }
  return allreduce_schedule(seating.board(), seating.boards(), shape.type, shape.count, shape.op, algorithm)
      .among(seating.leaders(), seating.ranks());
}

std::string words_for(const FullBoard::Shape& shape, const Seating& seating, AllreduceAlgorithm algorithm) {
  return text(shape.count, ' ', name_of(shape.type), " by ", name_of(shape.op), " between ", seating.boards(),
              " boards by ", name_of(algorithm));
}

}  // namespace

BetweenFullBoards::BetweenFullBoards(Engine& engine, const Seating& seating, const FullBoard::Shape& shape,
                                     AllreduceAlgorithm algorithm, FullBoard& board)
    : seating_(seating),
      shape_(shape),
      board_(board),
      between_(engine, schedule_between(shape, seating, algorithm), words_for(shape, seating, algorithm)) {}

bool BetweenFullBoards::step() {
  if (!seating_.leads() || board_.complete() || !board_.has_sum()) return false;
  if (!exchanging_) {
    between_.start({Argument::in(shape_.type, shape_.count, board_.sum()),
                    Argument::out(shape_.type, shape_.count, board_.outcome())});
    exchanging_ = true;
    return true;
  }
  const auto over = between_.finished();
  if (!over || !*over) return false;
  exchanging_ = false;
  board_.publish();
  return true;
}

}  // namespace stretto
