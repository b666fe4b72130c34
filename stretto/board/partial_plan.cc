#include "stretto/board/partial_plan.h"

#include <algorithm>
#include <array>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/board/partial_memory.h"
#include "stretto/board/plan_words.h"
#include "stretto/board/seat_word.h"

namespace stretto {
namespace {

/// The number of deposits that is worth a pass over the sum before the round starts.
constexpr std::uint64_t kEarlySources = 4;
/// The number of pieces from which on sleepers are woken to help.
constexpr std::uint64_t kManyPieces = 4;

}  // namespace

BoardStep PartialPlan::plan() {
  auto& word = at_.memory.words().plan;
  std::uint64_t bits = word.load(std::memory_order_acquire);
  const PlanWord seen(bits);
  at_.plan = bits;
  if (seen.round() > at_.round) return BoardStep::look;
  const bool current = seen.round() == at_.round;
  const bool wanted = at_.stage == PartialMemory::kSumming || planned_at_ != at_.changes + 1;
  if (!wanted || (current && seen.final())) return BoardStep::find_piece;
  if (seen.busy()) return current ? BoardStep::find_piece : BoardStep::nothing;
  listed_ = current ? seen.sources() : 0;
  // If the swap succeeds, at_.round has not ended: ending needs a final plan, and then the word would differ.
  if (!word.compare_exchange_strong(bits, PlanWord(at_.round, listed_, false).as_busy().bits(),
                                    std::memory_order_acq_rel)) {
    return BoardStep::plan;
  }
  if (!current) at_.memory.touch_sums(at_.round);
  planned_at_ = at_.changes + 1;
  list_end_ = listed_;
  std::fill(in_list_.begin(), in_list_.end(), std::uint8_t{0});
  for (std::uint64_t i = 0; i < listed_; ++i) {
    const std::uint32_t source = at_.memory.source(i).load(std::memory_order_relaxed);
    in_list_[source / PartialMemory::kSets] |= static_cast<std::uint8_t>(1u << source % PartialMemory::kSets);
  }
  return BoardStep::list_seat;
}

BoardStep PartialPlan::list_seat() {
  if (at_.stage == PartialMemory::kSumming) {
    const SeatWord word(at_.memory.sealed(at_.round, at_.seat).load(std::memory_order_acquire));
    STRETTO_CHECK(word.sealed() && word.round() == at_.round, "round ", at_.round, " lacks seat ", at_.seat);
    list(at_.seat, word.first());
    list(at_.seat, word.second());
  } else {
    // The first set of a seat stays there until the seat is sealed, and goes into this round. So does the second set,
    // once the application waits and deposits no more.
    const SeatWord word(at_.memory.seat(at_.seat).load(std::memory_order_seq_cst));
    if (word.round() == at_.round && whole(at_.seat, word.first())) list(at_.seat, word.first());
    if (word.round() == at_.round && word.arrived() && whole(at_.seat, word.second())) list(at_.seat, word.second());
    if (defect(Defect::sum_unpublished) && word.reopened().round() == at_.round && word.reopened().empty())
      list(at_.seat, 0);
  }
  if (++at_.seat < at_.ranks) return BoardStep::list_seat;
  at_.seat = 0;
  return BoardStep::publish;
}

/// Whether all buckets of a set have been handed over.
bool PartialPlan::whole(int rank, int set) const {
  const auto buckets = static_cast<int>(at_.memory.shape().buckets.size());
  return set >= 0 && at_.memory.set(rank, set).ready.load(std::memory_order_acquire) == buckets;
}

void PartialPlan::list(int rank, int set) {
  if (set < 0 || (in_list_[static_cast<std::size_t>(rank)] >> set & 1) != 0) return;
  const auto source = static_cast<std::uint32_t>(rank * PartialMemory::kSets + set);
  at_.memory.source(list_end_++).store(source, std::memory_order_relaxed);
}

BoardStep PartialPlan::publish() {
  auto& words = at_.memory.words();
  const bool final = at_.stage == PartialMemory::kSumming;
  if (final) {
    write_header();
    for (std::size_t i = 0; i < at_.memory.shape().buckets.size() && list_end_ == 0; ++i) {
      at_.count_done(i, at_.memory.pieces_of(i));
    }
  } else if (list_end_ - listed_ < kEarlySources && !(at_.interleaved && list_end_ > listed_)) {
    list_end_ = listed_;
  }
  at_.did |= final || list_end_ > listed_;
  words.plan.store(PlanWord(at_.round, list_end_, final).bits(), std::memory_order_release);
  if (final && at_.memory.num_pieces() >= kManyPieces) at_.wake_helpers();
  return BoardStep::look;
}

/// Writes the header of this board's contributions. With several boards end() replaces it by that of all boards.
void PartialPlan::write_header() {
  // For the arrivals, as write_record() for the rest: pairs with read_record().
  std::atomic_thread_fence(std::memory_order_release);
  RoundHeader& header = header_;
  header.reset(at_.memory.job_ranks());
  const auto arrivals = at_.memory.arrivals(at_.round);
  for (int seat = 0; seat < at_.ranks; ++seat) {
    const int rank = at_.memory.rank_at(seat);
    const SeatWord word(at_.memory.sealed(at_.round, seat).load(std::memory_order_acquire));
    if (word.arrived()) header.arrived.insert(rank);
    if (word.drained()) header.drained.insert(rank);
    arrivals[static_cast<std::size_t>(seat)].store(
        word.arrived() ? at_.memory.arrived_at(seat).load(std::memory_order_relaxed) : 0, std::memory_order_relaxed);
    if (word.empty()) {
      at_.rule.taken(at_.round, seat, nullptr);
      continue;
    }
    ContributionFacts facts = at_.memory.set(seat, word.first()).facts;
    if (word.second() >= 0) facts = facts + at_.memory.set(seat, word.second()).facts;
    enter(header, at_.round, rank, facts);
    at_.rule.taken(at_.round, seat, &facts);
  }
  at_.memory.record(at_.round).sealed_at.store(at_.rule.now(), std::memory_order_relaxed);
  std::array<std::uint64_t, 2> own{};
  if (!at_.memory.several_boards()) at_.rule.planned(at_.round, header, own);
  write_record(at_.memory, at_.round, header, own);
}

}  // namespace stretto
