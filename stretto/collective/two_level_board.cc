#include "stretto/collective/two_level_board.h"

#include <algorithm>
#include <string>

#include "stretto/base/cores.h"
#include "stretto/collective/plain_schedules.h"

namespace stretto {
namespace {

/// Who does not lead has nothing to do in it, but takes part in comparing what the ranks have made.
Schedule schedule_between(const TwoLevelBoard::Shape& shape, const Seating& seating) {
  if (!seating.leads()) {
    ScheduleBuilder b("allreduce", seating.rank, seating.ranks);
    return b.build(b.nop({}));
  }
  return allreduce_schedule(seating.board(), seating.boards(), shape.type, shape.count, shape.op, shape.between)
      .among(seating.leaders(), seating.ranks);
}

std::string words_for(const TwoLevelBoard::Shape& shape) {
  return text(shape.count, ' ', name_of(shape.type), " by ", name_of(shape.op), " between boards of ", shape.seats,
              " by ", name_of(shape.between));
}

}  // namespace

FullBoard::Shape TwoLevelBoard::board_shape(const Shape& shape, const Seating& seating, int board) {
  return {.type = shape.type,
          .count = shape.count,
          .op = shape.op,
          .piece_bytes = shape.piece_bytes,
          .helpers = std::min(num_cores(), seating.seats_at(board)) - 1,
          .upward = true};
}

std::uint64_t TwoLevelBoard::bytes_needed(const Shape& shape, int ranks) {
  const Seating seating{.ranks = ranks, .seats = shape.seats};
  std::uint64_t bytes = 0;
  for (int board = 0; board < seating.boards(); ++board) {
    bytes += FullBoard::bytes_needed(board_shape(shape, seating, board), seating.seats_at(board));
  }
  return bytes;
}

TwoLevelBoard::TwoLevelBoard(std::span<std::byte> memory, const Shape& shape, Engine& engine)
    : memory_(memory),
      shape_(shape),
      seating_{engine.rank(), engine.size(), shape.seats},
      board_(memory_of(seating_.board()), board_shape(shape, seating_, seating_.board()), seating_.seat(),
             seating_.here(),
             [&arena = *engine.arena(), leader = seating_.leader()](int seat) { arena.ring(leader + seat); }),
      between_(engine, schedule_between(shape, seating_), words_for(shape)) {}

std::span<std::byte> TwoLevelBoard::memory_of(int board) const {
  // All before the last are full.
  const auto bytes = FullBoard::bytes_needed(board_shape(shape_, seating_, 0), seating_.seats);
  return memory_.subspan(static_cast<std::uint64_t>(board) * bytes);
}

bool TwoLevelBoard::has_come(int rank) const {
  const int board = seating_.board_of(rank);
  return FullBoard::rounds_of(memory_of(board), rank - seating_.leader_of(board)) >= board_.rounds();
}

bool TwoLevelBoard::step() {
  if (board_.step()) return true;
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
