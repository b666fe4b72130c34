#include "stretto/board/partial_board.h"

#include <algorithm>
#include <array>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/board/partial_memory.h"
#include "stretto/board/partial_seat.h"

namespace stretto {

PartialBoard::PartialBoard(PartialMemory& memory, int seat, PartialRule& rule, std::function<void(int)> ring,
                           bool interleaved, bool ring_each)
    : memory_(memory),
      at_{memory, rule, seat, memory.ranks(), std::move(ring), interleaved, interleaved || ring_each} {}

bool PartialBoard::step(bool waiting) {
  at_.waiting = waiting;
  do {
    next_ = take_step();
  } while (!at_.interleaved && next_ != BoardStep::nothing);
  if (next_ != BoardStep::nothing) return true;
  next_ = BoardStep::look;
  return std::exchange(at_.did, false);
}

BoardStep PartialBoard::take_step() {
  switch (next_) {
    case BoardStep::look: return look();
    case BoardStep::look_at_seat: return start_.look_at_seat();
    case BoardStep::look_at_lag: return start_.look_at_lag();
    case BoardStep::start: return start_.start();
    case BoardStep::seal: return seal();
    case BoardStep::end_sealing: return end_sealing();
    case BoardStep::end_round: return end_round();
    case BoardStep::plan: return plan_.plan();
    case BoardStep::list_seat: return plan_.list_seat();
    case BoardStep::publish: return plan_.publish();
    case BoardStep::find_piece: return sum_.find_piece();
    case BoardStep::sum: return sum_.sum();
    case BoardStep::release: return sum_.release();
    case BoardStep::nothing: break;
  }
  return BoardStep::nothing;
}

void PartialBoard::read_header(Round round, RoundHeader& header) const {
  STRETTO_CHECK(round < memory_.done(), "round ", round, " is asked for before it is summed");
  const bool kept = read_kept_header(round, header);
  STRETTO_CHECK(kept, "the header of round ", round, " is gone in round ", complete());
}

bool PartialBoard::read_kept_header(Round round, RoundHeader& header) const {
  return read_record(memory_, round, header);
}

bool PartialBoard::all_have(int buckets) const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const Round open = complete();
  for (int rank = 0; rank < at_.ranks; ++rank) {
    SeatWord word(memory_.seat(rank).load(std::memory_order_seq_cst));
    if (word.sealed() && word.round() < open) word = word.reopened();
    if (word.round() != open || (!word.arrived() && !word.drained())) return false;
    if (!word.empty() && memory_.set(rank, word.first()).ready.load(std::memory_order_acquire) < buckets) return false;
  }
  return true;
}

int PartialBoard::wake_one() {
  return memory_.words().sleepers.wake(at_.ranks, 1, at_.ring);
}

std::atomic<std::uint32_t>* PartialBoard::signal() {
  return memory_.words().sleepers.signal();
}

bool PartialBoard::go_in() {
  Sleepers& sleepers = memory_.words().sleepers;
  looked_since_ = sleepers.contains(at_.rank);
  if (!looked_since_) sleepers.go_in(at_.rank);
  return !looked_since_;
}

void PartialBoard::leave() {
  Sleepers& sleepers = memory_.words().sleepers;
  if (sleepers.contains(at_.rank)) sleepers.leave(at_.rank);
}

// ---- the stage ----

BoardStep PartialBoard::look() {
  const std::uint64_t stage = memory_.words().stage.load(std::memory_order_seq_cst);
  at_.round = stage >> 2;
  at_.stage = static_cast<PartialMemory::Stage>(stage & 3);
  at_.seat = 0;
  sum_.begin();
  if (at_.stage == PartialMemory::kSealing) return BoardStep::seal;
  if (at_.stage == PartialMemory::kSumming) return BoardStep::end_round;
  return start_.look();
}

// Every seat is sealed by a compare-and-swap, an empty one too (docs/boards.md, B5): ranks that only read empty seats
// would disagree about which deposits the round takes.
BoardStep PartialBoard::seal() {
  auto& seat = memory_.seat(at_.seat);
  std::uint64_t bits = seat.load(std::memory_order_seq_cst);
  const SeatWord word(bits);
  if (!word.sealed_at_least(at_.round)) {
    const SeatWord sealed = word.to_seal(at_.round);
    if (!defect(Defect::seal_skips_empty) || !sealed.empty() || sealed.arrived()) {
      seat.compare_exchange_strong(bits, sealed.bits(), std::memory_order_seq_cst);
      return BoardStep::seal;
    }
    note_sealed(memory_, at_.seat, sealed);
  } else if (word.sealed() && word.round() == at_.round) {
    note_sealed(memory_, at_.seat, word);
  }
  return ++at_.seat < at_.ranks ? BoardStep::seal : BoardStep::end_sealing;
}

BoardStep PartialBoard::end_sealing() {
  std::uint64_t sealing = at_.round << 2 | PartialMemory::kSealing;
  memory_.words().stage.compare_exchange_strong(sealing, at_.round << 2 | PartialMemory::kSumming,
                                                std::memory_order_seq_cst);
  at_.did = true;
  return BoardStep::look;
}

BoardStep PartialBoard::end_round() {
  if (memory_.words().done.load(std::memory_order_acquire) != (at_.round + 1) * memory_.num_pieces())
    return BoardStep::plan;
  if (memory_.several_boards() && !defect(Defect::publish_before_boards)) return BoardStep::nothing;
  open_next();
  at_.did = true;
  return BoardStep::look;
}

void PartialBoard::open_next() {
  auto& words = memory_.words();
  std::uint64_t summing = at_.round << 2 | PartialMemory::kSumming;
  if (!words.stage.compare_exchange_strong(summing, (at_.round + 1) << 2 | PartialMemory::kOpen,
                                           std::memory_order_seq_cst))
    return;
  if (at_.ring_each) {
    words.sleepers.wake(at_.ranks, at_.ranks, at_.ring);
  } else {
    words.sleepers.wake_all(at_.ranks, at_.ring);
  }
}

void PartialBoard::end(Round round, const RoundHeader& header) {
  STRETTO_CHECK(round == complete() && memory_.done() == round + 1, "round ", round, " ends in round ", complete(),
                ", of which ", memory_.words().done.load(std::memory_order_relaxed), " pieces are summed");
  std::array<std::uint64_t, 2> own{};
  at_.rule.planned(round, header, own);
  write_record(memory_, round, header, own);
  at_.round = round;
  open_next();
  next_ = BoardStep::look;
}

}  // namespace stretto
