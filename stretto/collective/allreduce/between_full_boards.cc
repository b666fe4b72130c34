#include "stretto/collective/allreduce/between_full_boards.h"

#include <string>

#include "stretto/collective/schedules/plain_schedules.h"

namespace stretto {
namespace {

/// A rank that does not lead runs no schedule, but takes part in comparing the collectives of all ranks.
Schedule schedule_between(const FullBoard::Shape& shape, const Seating& seating, AllreduceAlgorithm algorithm) {
  if (!seating.leads()) {
    ScheduleBuilder b("allreduce", seating.rank, seating.ranks);
    return b.build(b.nop({}));
  }
  return allreduce_schedule(seating.board(), seating.boards(), shape.type, shape.count, shape.op, algorithm)
      .among(seating.leaders(), seating.ranks);
}

std::string words_for(const FullBoard::Shape& shape, const Seating& seating, AllreduceAlgorithm algorithm) {
  return text(shape.count, ' ', name_of(shape.type), " by ", name_of(shape.op), " between boards of ", seating.seats,
              " by ", name_of(algorithm));
}

}  // namespace

std::uint64_t BetweenFullBoards::bytes_needed(const FullBoard::Shape& board, const Seating& seating) {
  const int last = seating.boards() - 1;
  return static_cast<std::uint64_t>(last) * FullBoard::bytes_needed(board, seating.seats) +
         FullBoard::bytes_needed(board, seating.seats_at(last));
}

std::span<std::byte> BetweenFullBoards::memory_of(int board, std::span<std::byte> region, const FullBoard::Shape& shape,
                                                  const Seating& seating) {
  // All boards before the last are full.
  return region.subspan(static_cast<std::uint64_t>(board) * FullBoard::bytes_needed(shape, seating.seats));
}

BetweenFullBoards::BetweenFullBoards(Engine& engine, const Seating& seating, const FullBoard::Shape& shape,
                                     AllreduceAlgorithm algorithm, std::span<std::byte> region, FullBoard& board)
    : seating_(seating),
      shape_(shape),
      region_(region),
      board_(board),
      between_(engine, schedule_between(shape, seating, algorithm), words_for(shape, seating, algorithm)) {}

bool BetweenFullBoards::has_come(int rank) const {
  const int board = seating_.board_of(rank);
  const auto memory = memory_of(board, region_, shape_, seating_);
  return FullBoard::rounds_of(memory, rank - seating_.leader_of(board)) >= board_.rounds();
}

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
