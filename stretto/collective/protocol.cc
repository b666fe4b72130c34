#include "stretto/collective/protocol.h"

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"

namespace stretto {

RoundProtocol::RoundProtocol(int rank, int ranks, int max_lag, PolicyRule rule)
    : rank_(rank), ranks_(ranks), max_lag_(static_cast<Round>(max_lag)), rule_(std::move(rule)), drained_peers_(ranks) {
  if (max_lag < 1) throw UsageError(text("max_lag ", max_lag, " is impossible: use at least 1"));
}

void RoundProtocol::application_arrived(Round round) {
  arrived_at_ = round;
}

void RoundProtocol::application_handed(Round handed) {
  handed_ = handed;
}

void RoundProtocol::application_drained() {
  drained_ = true;
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
  if (is_counter() && drained_) drained_peers_.insert(rank_);
}

bool RoundProtocol::full(Round round) const {
  return round == complete() ? rule_.current().kind == Policy::Kind::full : full_ahead_ == round;
}

bool RoundProtocol::may_join() const {
  if (joined_ >= activated_ || !within_lag()) return false;
  return !full(joined_) || (joined_ == complete() && has_come()) || defect(Defect::full_asks_in);
}

bool RoundProtocol::within_lag() const {
  const Round bound = handed_ + max_lag_;
  return defect(Defect::lag_off_by_one) ? joined_ <= bound : joined_ < bound;
}

void RoundProtocol::activate_here(Round round) {
  activated_ = std::max(activated_, round + 1);
}

std::optional<RoundProtocol::Action> RoundProtocol::next_action(TimePoint now) {
  act_by_ = TimePoint::never();
  if (stopped_) return std::nullopt;
  const Round open = complete();
  if (drained_ && !drain_told_) {
    drain_told_ = true;
    if (!is_counter()) return Action{Action::Kind::drain};
    drained_peers_.insert(rank_);
  }
  const bool idle = activated_ == open;  // nobody has started the open round, as far as is known here
  const Policy& policy = rule_.current();
  const bool arrived_now = arrived_at_ == open && told_of_ != open;
  if (arrived_now) told_of_ = open;
  if (policy.kind == Policy::Kind::full) {
    // Nobody starts it for others: whoever has come enters, and the reduction waits for the rest.
    if (!idle || !has_come()) return std::nullopt;
    activate_here(open);
    return Action{Action::Kind::activate, open};
  }
  if (policy.kind == Policy::Kind::solo) {
    if (idle && arrived_now) {
      activate_here(open);
      return Action{Action::Kind::activate, open};
    }
  } else if (policy.kind == Policy::Kind::majority) {
    const bool drawn = policy.initiator == static_cast<std::uint32_t>(rank_);
    if (idle && drawn && has_come()) {
      activate_here(open);
      return Action{Action::Kind::activate, open};
    }
  } else if (arrived_now) {
    if (is_counter()) {
      note_arrival(rank_, open, now);
    } else {
      return Action{Action::Kind::arrive, open};
    }
  }
  if (is_counter() && idle && may_start(now)) {
    activate_here(open);
    return Action{Action::Kind::activate, open};
  }
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
