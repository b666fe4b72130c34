#include "stretto/board/partial_start.h"

#include <algorithm>
#include <limits>

#include "stretto/base/defect.h"
#include "stretto/board/seat_word.h"

namespace stretto {
namespace {

/// Smaller contributions are summed in the time it takes to look.
constexpr std::uint64_t kEarlyBytes = 64 << 10;

}  // namespace

BoardStep PartialStart::look() {
  at_.changes = at_.memory.words().changes.load(std::memory_order_seq_cst);
  held_ = early_ = false;
  if (at_.changes == attended_ && attended_round_ == at_.round) return ask();
  attendance_.arrived.clear();
  attendance_.drained.clear();
  attendance_.first_arrival = 0;
  return BoardStep::look_at_seat;
}

BoardStep PartialStart::ask() {
  return at_.rule.may_start(at_.round, attendance_) ? BoardStep::look_at_lag : sum_early();
}

BoardStep PartialStart::look_at_seat() {
  const SeatWord word(at_.memory.seat(at_.seat).load(std::memory_order_seq_cst));
  if (word.drained()) attendance_.drained.insert(at_.seat);
  if (!word.sealed() && word.round() == at_.round && word.arrived()) {
    attendance_.arrived.insert(at_.seat);
    const std::int64_t since = at_.memory.arrived_at(at_.seat).load(std::memory_order_relaxed);
    if (attendance_.first_arrival == 0 || since < attendance_.first_arrival) attendance_.first_arrival = since;
  }
  if (++at_.seat < at_.ranks) return BoardStep::look_at_seat;
  at_.seat = 0;
  attended_ = at_.changes;
  attended_round_ = at_.round;
  return ask();
}

BoardStep PartialStart::look_at_lag() {
  if (at_.seat == 0) least_handed_ = std::numeric_limits<Round>::max();
  least_handed_ = std::min(least_handed_, Round{at_.memory.handed(at_.seat).load(std::memory_order_seq_cst)});
  if (++at_.seat < at_.ranks) return BoardStep::look_at_lag;
  at_.seat = 0;
  const Round bound = least_handed_ + static_cast<Round>(at_.memory.shape().max_lag);
  const bool within = defect(Defect::lag_off_by_one) ? at_.round <= bound : at_.round < bound;
  if (early_) return within ? BoardStep::plan : BoardStep::nothing;
  if (within) return BoardStep::start;
  if (held_) return BoardStep::nothing;
  // Pairs with PartialSeat::hand_over() (docs/boards.md, B4). A rank that raises its handed count after this store
  // sees the store; one that raised it before is seen by the second look.
  at_.memory.words().held.store(at_.round + 1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  held_ = true;
  return defect(Defect::held_without_second_look) ? BoardStep::nothing : BoardStep::look_at_lag;
}

BoardStep PartialStart::sum_early() {
  at_.seat = 0;
  const PartialShape& shape = at_.memory.shape();
  const bool worth = at_.waiting && shape.order == SumOrder::arrival &&
                     (at_.memory.set_bytes() >= kEarlyBytes || at_.interleaved) && at_.ranks > 2;
  if (!worth) return BoardStep::nothing;
  if (at_.memory.several_boards()) return at_.memory.sum_is_free(at_.round) ? BoardStep::plan : BoardStep::nothing;
  // An older result may lie where the sum goes, and some rank may not have been handed it yet.
  early_ = true;
  return BoardStep::look_at_lag;
}

BoardStep PartialStart::start() {
  std::uint64_t open = at_.round << 2 | PartialMemory::kOpen;
  if (at_.memory.words().stage.compare_exchange_strong(open, at_.round << 2 | PartialMemory::kSealing,
                                                       std::memory_order_seq_cst)) {
    at_.did = true;
    at_.memory.words().held.store(0, std::memory_order_seq_cst);
    at_.rule.started(at_.round, attendance_);
  }
  return BoardStep::look;
}

}  // namespace stretto
