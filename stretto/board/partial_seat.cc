#include "stretto/board/partial_seat.h"

#include <cstring>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/kernel/combine.h"

namespace stretto {

void note_sealed(PartialMemory& memory, int rank, SeatWord word) {
  auto& kept = memory.sealed(word.round(), rank);
  std::uint64_t seen = kept.load(std::memory_order_acquire);
  // The word there is of an earlier round, of this one, or of a later one.
  if (SeatWord(seen).sealed_at_least(word.round()) && SeatWord(seen).sealed()) return;
  kept.compare_exchange_strong(seen, word.bits(), std::memory_order_acq_rel);
}

bool PartialSeat::swap(SeatWord& seen, SeatWord next) {
  std::uint64_t bits = seen.bits();
  if (memory_.seat(rank_).compare_exchange_strong(bits, next.bits(), std::memory_order_seq_cst)) {
    if (seen.sealed() && !seen.empty()) gone_ = seen;
    return true;
  }
  seen = SeatWord(bits);
  return false;
}

int PartialSeat::acquire() {
  const SeatWord word = load();
  const std::uint64_t done = memory_.done();
  // That is enough. But where this rank's helper thread has planned the round, and others have summed it, what orders
  // the helper's last look at a set before this is in their processes; the thread sanitizer sees the plan alone.
  memory_.words().plan.load(std::memory_order_acquire);
  const auto summed = [&](SeatWord sealed) { return done > sealed.round() || defect(Defect::reuse_before_complete); };
  std::uint32_t used = filling_;
  if (reuse_before_ != kEvery && !defect(Defect::carried_reuse_summed)) {
    each_set_from(reuse_before_, [&](int set) { used |= 1u << set; });
  }
  for (int set = 0; set < PartialMemory::kSets; ++set) {
    if ((used >> set & 1) != 0) continue;
    if (word.holds(set) && !(word.sealed() && summed(word))) continue;
    if (gone_.sealed() && gone_.holds(set) && !summed(gone_)) continue;
    filling_ |= 1u << set;
    if ((touched_ >> set & 1) == 0) memory_.touch_set(rank_, set);
    touched_ |= 1u << set;
    return set;
  }
  STRETTO_CHECK(false, "all ", PartialMemory::kSets, " contribution sets are in use");
}

void PartialSeat::add(int sum, int older, int newer) {
  const auto& shape = memory_.shape();
  for (std::size_t i = 0; i < shape.buckets.size(); ++i) {
    const auto to = memory_.data(rank_, sum, i);
    std::memcpy(to.data(), memory_.data(rank_, older, i).data(), to.size());
    reduce(shape.buckets[i].type, shape.op, to.data(), to.data(), memory_.data(rank_, newer, i).data(),
           shape.buckets[i].count);
  }
  memory_.set(rank_, sum).facts = memory_.set(rank_, older).facts + memory_.set(rank_, newer).facts;
  memory_.set(rank_, sum).ready.store(static_cast<int>(shape.buckets.size()), std::memory_order_release);
}

bool PartialSeat::Deposit::step() {
  switch (state_) {
    case State::look:
      seen_ = seat_.load();
      state_ = seen_.sealed() ? State::note : seen_.second() >= 0 ? State::add : State::swap;
      next_ = seen_.reopened();
      next_ = next_.first() < 0 ? next_.with_first(set_) : next_.with_second(set_);
      return false;
    case State::note:
      // The sealed word must be copied before it is replaced (docs/boards.md, B6).
      note_sealed(seat_.memory_, seat_.rank_, seen_);
      state_ = State::swap;
      return false;
    case State::add:
      // In the order of arrival the first deposit stays: other ranks may have summed it ahead. In the fixed order
      // nothing is summed ahead, and deposits are added up one after the other, as they are by messages.
      sum_ = seat_.acquire();
      if (seat_.memory_.shape().order == SumOrder::arrival) {
        seat_.add(sum_, seen_.second(), set_);
        next_ = seen_.with_second(sum_);
      } else {
        seat_.add(sum_, seen_.first(), seen_.second());
        next_ = seen_.with_first(sum_).with_second(set_);
      }
      state_ = State::swap;
      return false;
    case State::swap: {
      if (!seat_.swap(seen_, next_)) {
        // The seat has been sealed meanwhile: the deposits added up belong to that round, this set to the next one.
        if (sum_ >= 0) seat_.filling_ &= ~(1u << sum_);
        sum_ = -1;
        state_ = State::look;
        return false;
      }
      seat_.filling_ &= ~(1u << set_);
      if (sum_ >= 0) seat_.filling_ &= ~(1u << sum_);
      return true;
    }
  }
  return false;
}

void PartialSeat::arrive(Round round, std::int64_t now) {
  SeatWord seen = load();
  memory_.arrived_at(rank_).store(now, std::memory_order_relaxed);
  for (;;) {
    if (seen.sealed_at_least(round)) return;
    if (seen.sealed()) note_sealed(memory_, rank_, seen);
    const SeatWord next = seen.reopened();
    STRETTO_CHECK(next.round() == round, "rank ", rank_, " arrives at round ", round, "; its seat is at ",
                  next.round());
    if (swap(seen, next.with_arrived())) return changed();
  }
}

void PartialSeat::drain() {
  SeatWord seen = load();
  for (;;) {
    if (seen.sealed()) note_sealed(memory_, rank_, seen);
    if (swap(seen, seen.reopened().with_drained())) return changed();
  }
}

bool PartialSeat::hand_over(Round rounds) {
  memory_.handed(rank_).store(rounds, std::memory_order_seq_cst);
  changed();
  // Pairs with PartialStart::look_at_lag(), which stores `held` and then reads all handed counts: one of the two sees
  // the other.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return memory_.words().held.load(std::memory_order_seq_cst) != 0;
}

bool PartialSeat::pending() const {
  const SeatWord word = load();
  return !word.sealed() && !word.empty();
}

}  // namespace stretto
