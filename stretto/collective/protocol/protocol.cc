#include "stretto/collective/protocol/protocol.h"

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"

namespace stretto {

RoundProtocol::RoundProtocol(const std::vector<int>& here, int ranks, int max_lag, PolicyRule rule)
    : ranks_(ranks), max_lag_(static_cast<Round>(max_lag)), rule_(std::move(rule)), drained_peers_(ranks) {
  for (const int rank : here) seats_.push_back({.rank = rank});
  if (max_lag < 1) throw UsageError(text("max_lag ", max_lag, " is impossible: use at least 1"));
}

void RoundProtocol::application_arrived(Round round, int seat) {
  seats_[static_cast<std::size_t>(seat)].arrived_at = round;
}

void RoundProtocol::application_handed(Round handed) {
  handed_ = handed;
}

void RoundProtocol::application_drained(int seat) {
  seats_[static_cast<std::size_t>(seat)].drained = true;
}

bool RoundProtocol::message_of(Round round, bool full) {
  if (round < complete() || stopped_) return false;
  if (full && !(full_ahead_ > round)) full_ahead_ = round;  // messages of different peers overtake each other
  activated_ = std::max(activated_, round + 1);
  return true;
}

RoundProtocol::Arrivals& RoundProtocol::arrivals_at(Round round) {
  for (auto& arrivals : arrivals_) {
    if (arrivals.round == round) return arrivals;
  }
  arrivals_.push_back({round, RankSet(ranks_), {}});
  return arrivals_.back();
}

void RoundProtocol::note_arrival(int peer, Round round, TimePoint now) {
  if (round < complete()) return;
  Arrivals& arrivals = arrivals_at(round);
  if (arrivals.ranks.contains(peer)) return;
  arrivals.ranks.insert(peer);
  arrivals.times.push_back(now);
}

void RoundProtocol::peer_arrived(int peer, Round round, TimePoint now) {
  if (defect(Defect::arrivals_without_round)) round = complete();
  if (defect(Defect::arrive_activates) && round >= complete()) activated_ = std::max(activated_, round + 1);
  note_arrival(peer, round, now);
}

void RoundProtocol::peer_drained(int peer) {
  drained_peers_.insert(peer);
}

void RoundProtocol::round_completed(Round round, const RoundHeader& header) {
  STRETTO_CHECK(round == complete() && round < joined_, "round ", round, " completes, open is ", complete(),
                ", joined ", joined_);
  for (const auto& arrivals : arrivals_) {
    if (arrivals.round == round && rule_.current().adaptive) learned_patience_.learn(arrivals.times);
  }
  std::erase_if(arrivals_, [&](const Arrivals& a) { return a.round <= round; });
  rule_.advance(header);
  if (header.drained.all() && !defect(Defect::last_round_twice)) stopped_ = true;
  for (const Seat& seat : seats_) {
    if (is_counter() && seat.drained) drained_peers_.insert(seat.rank);
  }
}

bool RoundProtocol::full(Round round) const {
  return round == complete() ? rule_.current().kind == Policy::Kind::full : full_ahead_ == round;
}

bool RoundProtocol::may_join_but_for_lag() const {
  if (joined_ >= activated_) return false;
  return !full(joined_) || (joined_ == complete() && all_have_come()) || defect(Defect::full_asks_in);
}

bool RoundProtocol::within_lag() const {
  const Round bound = handed_ + max_lag_;
  return defect(Defect::lag_off_by_one) ? joined_ <= bound : joined_ < bound;
}

bool RoundProtocol::all_have_come() const {
  return std::ranges::all_of(seats_, [this](const Seat& seat) { return seat.has_come(complete()); });
}

RoundProtocol::Action RoundProtocol::activate_open() {
  activated_ = std::max(activated_, complete() + 1);
  return {Action::Kind::activate, complete()};
}

std::optional<RoundProtocol::Action> RoundProtocol::tell_of_drains() {
  for (Seat& seat : seats_) {
    if (!seat.drained || seat.drain_told) continue;
    seat.drain_told = true;
    if (!is_counter()) return Action{Action::Kind::drain, 0, seat.rank};
    drained_peers_.insert(seat.rank);
  }
  return std::nullopt;
}

/// Tells the counter of the seats that have arrived at the open round, one by one; the counter notes its own.
std::optional<RoundProtocol::Action> RoundProtocol::tell_of_arrivals(TimePoint now) {
  const Round open = complete();
  for (Seat& seat : seats_) {
    if (seat.arrived_at != open || seat.told_of == open) continue;
    seat.told_of = open;
    if (!is_counter()) return Action{Action::Kind::arrive, open, seat.rank};
    note_arrival(seat.rank, open, now);
  }
  return std::nullopt;
}

std::optional<RoundProtocol::Action> RoundProtocol::next_action(TimePoint now, bool may_start) {
  act_by_ = TimePoint::never();
  if (stopped_) return std::nullopt;
  if (auto drain = tell_of_drains()) return drain;
  const Policy::Kind kind = rule_.current().kind;
  const bool counted = kind == Policy::Kind::quorum || kind == Policy::Kind::deadline;
  if (counted) {
    if (auto arrival = tell_of_arrivals(now)) return arrival;
  }
  if (activated_ != complete() || !may_start) return std::nullopt;  // the open round has been started, or may not be
  if (kind == Policy::Kind::full) {
    // Nobody starts it for others: a rank that has come enters, and the reduction waits for the rest.
    return all_have_come() ? std::optional(activate_open()) : std::nullopt;
  }
  if (counted && !is_counter()) return std::nullopt;
  const TimePoint from = may_start_open();
  if (now >= from) return activate_open();
  act_by_ = from;
  return std::nullopt;
}

/// may_start_from() with the arrivals and drains that this rank knows of. The counter knows those of all ranks where
/// the policy counts them. Otherwise a rank knows its own seats only; under solo the counter knows all drains, too,
/// because it starts the last round.
TimePoint RoundProtocol::may_start_open() const {
  const Policy& policy = rule_.current();
  const bool counted = policy.kind == Policy::Kind::quorum || policy.kind == Policy::Kind::deadline;
  if (counted) {
    for (const auto& arrivals : arrivals_) {
      if (arrivals.round != complete()) continue;
      return may_start_from(policy, {arrivals.ranks, drained_peers_, arrivals.times.front(), learned_patience_});
    }
    return may_start_from(policy, {RankSet(ranks_), drained_peers_, {}, learned_patience_});
  }
  const bool all = policy.kind == Policy::Kind::solo && is_counter();
  const bool any = std::ranges::any_of(seats_, [this](const Seat& seat) { return seat.has_come(complete()); });
  if (!any && !all) return TimePoint::never();  // most of the time, and before sets of all ranks are made
  RankSet arrived(ranks_), drained(ranks_);
  for (const Seat& seat : seats_) {
    if (seat.arrived_at == complete()) arrived.insert(seat.rank);
    if (seat.drained) drained.insert(seat.rank);
  }
  return may_start_from(policy, {arrived, all ? drained_peers_ : drained, {}, learned_patience_});
}

RankSet RoundProtocol::missing() const {
  RankSet there = drained_peers_;
  for (const auto& arrivals : arrivals_) {
    if (arrivals.round == complete()) there |= arrivals.ranks;
  }
  RankSet gone(ranks_);
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!there.contains(rank)) gone.insert(rank);
  }
  return gone;
}

}  // namespace stretto
