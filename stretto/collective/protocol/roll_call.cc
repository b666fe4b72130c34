#include "stretto/collective/protocol/roll_call.h"

#include <algorithm>

namespace stretto {

RollCall::RollCall(const std::vector<int>& here, int ranks) : ranks_(ranks), drained_(ranks) {
  for (const int rank : here) seats_.emplace_back().rank = rank;
}

std::optional<RoundAction> RollCall::tell_of_drains() {
  for (Seat& seat : seats_) {
    if (!seat.drained || seat.drain_told_) continue;
    seat.drain_told_ = true;
    if (!is_counter()) return RoundAction{.kind = RoundAction::Kind::drain, .rank = seat.rank};
    drained(seat.rank);
  }
  return std::nullopt;
}

std::optional<RoundAction> RollCall::tell_of_arrivals(Round open, TimePoint now) {
  for (Seat& seat : seats_) {
    if (seat.arrived_at != open || seat.told_of_ == open) continue;
    seat.told_of_ = open;
    if (!is_counter()) return RoundAction{.kind = RoundAction::Kind::arrive, .round = open, .rank = seat.rank};
    arrived(seat.rank, open, now);
  }
  return std::nullopt;
}

void RollCall::arrived(int rank, Round round, TimePoint now) {
  auto known = std::ranges::find(arrivals_, round, &Arrivals::round);
  if (known == arrivals_.end()) known = arrivals_.insert(known, {round, RankSet(ranks_), {}});
  if (known->ranks.contains(rank)) return;
  known->ranks.insert(rank);
  known->times.push_back(now);
}

void RollCall::note_own_drains() {
  for (const Seat& seat : seats_) {
    if (is_counter() && seat.drained) drained(seat.rank);
  }
}

const RollCall::Arrivals* RollCall::at(Round round) const {
  const auto known = std::ranges::find(arrivals_, round, &Arrivals::round);
  return known == arrivals_.end() ? nullptr : &*known;
}

RankSet RollCall::come_to(Round round) const {
  RankSet come = drained_;
  if (const Arrivals* arrivals = at(round)) come |= arrivals->ranks;
  return come;
}

void RollCall::forget_before(Round round) {
  std::erase_if(arrivals_, [round](const Arrivals& arrivals) { return arrivals.round < round; });
}

}  // namespace stretto
