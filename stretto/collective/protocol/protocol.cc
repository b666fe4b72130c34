#include "stretto/collective/protocol/protocol.h"

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"

namespace stretto {

RoundProtocol::RoundProtocol(const std::vector<int>& here, int ranks, int max_lag, PolicyRule rule)
    : ranks_(ranks), max_lag_(static_cast<Round>(max_lag)), rule_(std::move(rule)), roll_(here, ranks) {
  if (max_lag < 1) throw UsageError(text("max_lag ", max_lag, " is impossible: use at least 1"));
}

bool RoundProtocol::message_of(Round round, bool full) {
  if (round < complete() || stopped_) return false;
  if (full && !(full_ahead_ > round)) full_ahead_ = round;  // messages of different peers overtake each other
  activated_ = std::max(activated_, round + 1);
  return true;
}

void RoundProtocol::peer_arrived(int peer, Round round, TimePoint now) {
  if (defect(Defect::arrivals_without_round)) round = complete();
  if (defect(Defect::arrive_activates) && round >= complete()) activated_ = std::max(activated_, round + 1);
  if (round >= complete()) roll_.arrived(peer, round, now);
}

void RoundProtocol::round_completed(Round round, const RoundHeader& header) {
  STRETTO_CHECK(round == complete() && round < joined_, "round ", round, " completes, open is ", complete(),
                ", joined ", joined_);
  const RollCall::Arrivals* arrivals = roll_.at(round);
  if (arrivals != nullptr && rule_.current().adaptive) learned_patience_.learn(arrivals->times);
  roll_.forget_before(round + 1);
  rule_.advance(header);
  if (header.drained.all() && !defect(Defect::last_round_twice)) stopped_ = true;
  roll_.note_own_drains();
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
  return std::ranges::all_of(roll_.seats(), [this](const RollCall::Seat& seat) { return seat.has_come(complete()); });
}

RoundAction RoundProtocol::activate_open() {
  activated_ = std::max(activated_, complete() + 1);
  return {.kind = RoundAction::Kind::activate, .round = complete()};
}

std::optional<RoundAction> RoundProtocol::next_action(TimePoint now, bool may_start) {
  act_by_ = TimePoint::never();
  if (stopped_) return std::nullopt;
  if (auto drain = roll_.tell_of_drains()) return drain;
  const Policy::Kind kind = rule_.current().kind;
  const bool counted = kind == Policy::Kind::quorum || kind == Policy::Kind::deadline;
  if (counted) {
    if (auto arrival = roll_.tell_of_arrivals(complete(), now)) return arrival;
  }
  if (activated_ != complete() || !may_start) return std::nullopt;  // the open round has been started, or may not be
  if (kind == Policy::Kind::full) {
    // Nobody starts it for others: a rank that has come enters, and the reduction waits for the rest.
    return all_have_come() ? std::optional(activate_open()) : std::nullopt;
  }
  if (counted && !roll_.is_counter()) return std::nullopt;
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
    if (const RollCall::Arrivals* arrivals = roll_.at(complete())) {
      return may_start_from(policy, {arrivals->ranks, roll_.drained(), arrivals->times.front(), learned_patience_});
    }
    return may_start_from(policy, {RankSet(ranks_), roll_.drained(), {}, learned_patience_});
  }
  const bool all = policy.kind == Policy::Kind::solo && roll_.is_counter();
  const bool any =
      std::ranges::any_of(roll_.seats(), [this](const RollCall::Seat& seat) { return seat.has_come(complete()); });
  if (!any && !all) return TimePoint::never();  // most of the time, and before sets of all ranks are made
  RankSet arrived(ranks_), drained(ranks_);
  for (const RollCall::Seat& seat : roll_.seats()) {
    if (seat.arrived_at == complete()) arrived.insert(seat.rank);
    if (seat.drained) drained.insert(seat.rank);
  }
  return may_start_from(policy, {arrived, all ? roll_.drained() : drained, {}, learned_patience_});
}

RankSet RoundProtocol::missing() const {
  const RankSet there = roll_.come_to(complete());
  RankSet gone(ranks_);
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!there.contains(rank)) gone.insert(rank);
  }
  return gone;
}

}  // namespace stretto
