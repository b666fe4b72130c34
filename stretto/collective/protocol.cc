#include "stretto/collective/protocol.h"

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"

namespace stretto {

RoundProtocol::RoundProtocol(int rank, int ranks, int max_lag, PolicyRule rule, int seats)
    : rank_(rank),
      ranks_(ranks),
      max_lag_(static_cast<Round>(max_lag)),
      rule_(std::move(rule)),
      seats_(static_cast<std::size_t>(seats)),
      drained_peers_(ranks) {
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
    if (arrivals.round == round && rule_.current().adaptive) arrival_patience_.learn(arrivals.times);
  }
  std::erase_if(arrivals_, [&](const Arrivals& a) { return a.round <= round; });
  last_header_all_drained_ = header.drained.full();
  rule_.advance(header);
  if (last_header_all_drained_ && !defect(Defect::last_round_twice)) stopped_ = true;
  for (std::size_t seat = 0; seat < seats_.size() && is_counter(); ++seat) {
    if (seats_[seat].drained) drained_peers_.insert(rank_ + static_cast<int>(seat));
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

/// Whether the rank drawn for the open round is here and has come.
bool RoundProtocol::drawn_has_come() const {
  const auto seat = static_cast<std::int64_t>(rule_.current().initiator) - rank_;
  if (seat < 0 || seat >= static_cast<std::int64_t>(seats_.size())) return false;
  return seats_[static_cast<std::size_t>(seat)].has_come(complete());
}

RoundProtocol::Action RoundProtocol::activate_open() {
  activated_ = std::max(activated_, complete() + 1);
  return {Action::Kind::activate, complete()};
}

std::optional<RoundProtocol::Action> RoundProtocol::tell_of_drains() {
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (!seats_[i].drained || seats_[i].drain_told) continue;
    seats_[i].drain_told = true;
    const int rank = rank_ + static_cast<int>(i);
    if (!is_counter()) return Action{Action::Kind::drain, 0, rank};
    drained_peers_.insert(rank);
  }
  return std::nullopt;
}

std::optional<RoundProtocol::Action> RoundProtocol::next_action(TimePoint now) {
  act_by_ = TimePoint::never();
  if (stopped_) return std::nullopt;
  const Round open = complete();
  if (auto drain = tell_of_drains()) return drain;
  const bool idle = activated_ == open;  // nobody has started the open round, as far as is known here
  const Policy::Kind kind = rule_.current().kind;
  if (kind == Policy::Kind::full) {
    // Nobody starts it for others: whoever has come enters, and the reduction waits for the rest.
    if (!idle || !all_have_come()) return std::nullopt;
    return activate_open();
  }
  if (kind == Policy::Kind::majority) {
    if (idle && drawn_has_come()) return activate_open();
  } else {
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      if (seats_[i].arrived_at != open || seats_[i].told_of == open) continue;
      seats_[i].told_of = open;
      const int rank = rank_ + static_cast<int>(i);
      if (kind == Policy::Kind::solo) {
        if (idle) return activate_open();
      } else if (is_counter()) {
        note_arrival(rank, open, now);
      } else {
        return Action{Action::Kind::arrive, open, rank};
      }
    }
  }
  if (is_counter() && idle && may_start(now)) return activate_open();
  return std::nullopt;
}

bool RoundProtocol::may_start(TimePoint now) {
  const bool all_drained = drained_peers_.full();
  // Under majority the rank drawn has drained, too, and starts it.
  if (all_drained && rule_.current().kind != Policy::Kind::majority && !defect(Defect::no_last_round)) {
    return !last_header_all_drained_ || defect(Defect::last_round_twice);
  }
  const Policy& policy = rule_.current();
  if (policy.kind == Policy::Kind::solo || policy.kind == Policy::Kind::majority) return false;
  const Arrivals* here = nullptr;
  for (const auto& arrivals : arrivals_) {
    if (arrivals.round == complete()) here = &arrivals;
  }
  if (here == nullptr || here->ranks.empty()) return false;
  const int come = (here->ranks | drained_peers_).count();
  if (come == ranks_) return true;
  if (come < static_cast<int>(policy.quorum)) return false;
  if (policy.kind == Policy::Kind::quorum) return true;
  const TimePoint due = here->times.front() + patience();
  if (now >= due) return true;
  act_by_ = due;
  return false;
}

Duration RoundProtocol::patience() const {
  return rule_.current().adaptive ? arrival_patience_.get() : rule_.current().patience;
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
