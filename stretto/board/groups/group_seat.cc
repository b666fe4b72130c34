#include "stretto/board/groups/group_seat.h"

#include "stretto/base/defect.h"
#include "stretto/base/error.h"

namespace stretto {

bool GroupSeat::in_use(int set) const {
  if (set == stands_ || set == filling_) return true;
  if (memory_.shape().moves != nullptr) {
    const auto place = static_cast<std::uint64_t>(set);
    return versions_ > 0 && (place == base_ || place == stands());
  }
  if (reading_ && memory_.shape().keep_own && memory_.own(*reading_, rank_).set == set) return true;
  // Pairs with GroupBoard::pin_model(): a rank that has pinned the set before this look is seen here; one that pins it
  // later finds in its second look that the set no longer stands.
  return memory_.set(rank_, set).pins.load(std::memory_order_seq_cst) != 0 && !defect(Defect::group_board_reuse_pinned);
}

std::optional<int> GroupSeat::acquire() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int set = 0; set < memory_.sets(); ++set) {
    if (in_use(set)) continue;
    filling_ = set;
    if ((touched_ >> set & 1) == 0) memory_.touch_model(rank_, set);
    touched_ |= 1u << set;
    return set;
  }
  return std::nullopt;
}

void GroupSeat::publish(int set, Round ticket, const ContributionFacts& facts) {
  GroupMemory::Set& model = memory_.set(rank_, set);
  model.ticket = ticket;
  model.facts = facts;
  filling_ = -1;
  if (memory_.shape().moves != nullptr) {
    base_ = static_cast<std::uint64_t>(set);
    memory_.seat(rank_).ticket = ticket;
    memory_.seat(rank_).facts = facts;
  } else {
    stands_ = set;
  }
  const NumberedWord word(++versions_, static_cast<std::uint64_t>(set));
  memory_.seat(rank_).model.store(word.bits(), std::memory_order_seq_cst);
}

bool GroupSeat::claim() {
  return defect(Defect::group_beneath_a_sum) || memory_.seat(rank_).claim();
}

void GroupSeat::settle(int set, Round ticket, const ContributionFacts& facts) {
  GroupMemory::Seat& seat = memory_.seat(rank_);
  const NumberedWord stood(seat.model.load(std::memory_order_seq_cst));
  seat.ticket = ticket;
  seat.facts = facts;
  filling_ = -1;
  seat.model.store(NumberedWord(stood.number() + 1, static_cast<std::uint64_t>(set)).bits(), std::memory_order_seq_cst);
  memory_.give_back(stood.index());
  memory_.give_back(base_);
  has_base_ = stood.index() == base_;
  base_ = static_cast<std::uint64_t>(set);
  if (!defect(Defect::group_beneath_a_sum)) seat.give_up();
}

/// As read(): a result that is still what stands after it has been used once more has not been given back in between.
std::optional<std::uint64_t> GroupSeat::follow() {
  const auto& word = memory_.seat(rank_).model;
  for (;;) {
    const std::uint64_t bits = word.load(std::memory_order_seq_cst);
    const std::uint64_t place = NumberedWord(bits).index();
    if (place == base_ && has_base_) return std::nullopt;
    memory_.use(place);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (word.load(std::memory_order_seq_cst) == bits) {
      memory_.give_back(base_);
      base_ = place;
      has_base_ = true;
      return place;
    }
    memory_.give_back(place);
  }
}

std::optional<std::uint64_t> GroupSeat::read(Round from) {
  STRETTO_CHECK(!reading_, "a result is read before the last one is released");
  for (;;) {
    const NumberedWord newest(memory_.seat(rank_).result.load(std::memory_order_seq_cst));
    if (newest.number() <= from) return std::nullopt;
    // The result counts this rank twice from here on, once as its newest. Where it is still the newest afterwards it
    // has not been given back in between.
    memory_.result(newest.index()).uses.fetch_add(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    reading_ = newest.index();
    if (memory_.seat(rank_).result.load(std::memory_order_seq_cst) == newest.bits()) return reading_;
    release();
  }
}

void GroupSeat::release() {
  memory_.result(*reading_).uses.fetch_sub(1, std::memory_order_seq_cst);
  reading_.reset();
}

}  // namespace stretto
