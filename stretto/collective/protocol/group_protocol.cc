#include "stretto/collective/protocol/group_protocol.h"

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"

namespace stretto {

GroupProtocol::GroupProtocol(const std::vector<int>& here, int ranks, Round full_every, int quorum)
    : ranks_(ranks), full_every_(full_every), quorum_(quorum), drained_peers_(ranks) {
  for (const int rank : here) seats_.push_back({.rank = rank});
}

bool GroupProtocol::message_of(Round round, bool activation) {
  if (round < complete_ || stopped_) {
    if (defect(Defect::group_old_activation) && activation && !stopped_) {
      activated_ = std::max(activated_, complete_ + 1);
      return true;
    }
    return false;
  }
  // A message of a full round asks nobody in: it waits until the application has come.
  if (full(round) && !defect(Defect::group_full_asks_in)) return true;
  if (defect(Defect::group_activates_one) && round > activated_) return true;
  activated_ = std::max(activated_, round + 1);
  if (defect(Defect::group_joins_newest) && joined_ == complete_) joined_ = complete_ = activated_ - 1;
  return true;
}

GroupProtocol::Arrivals& GroupProtocol::arrivals_at(Round round) {
  const auto known = std::ranges::find(arrivals_, round, &Arrivals::round);
  if (known != arrivals_.end()) return *known;
  arrivals_.push_back({round, RankSet(ranks_)});
  return arrivals_.back();
}

void GroupProtocol::peer_arrived(int peer, Round round) {
  if (round >= complete_) arrivals_at(round).ranks.insert(peer);
}

void GroupProtocol::round_completed(bool all_drained) {
  STRETTO_CHECK(joined_ == complete_ + 1, "round ", complete_, " completes, and ", joined_, " rounds are joined");
  ++complete_;
  stopped_ = all_drained;
  std::erase_if(arrivals_, [this](const Arrivals& arrivals) { return arrivals.round < complete_; });
}

bool GroupProtocol::full(Round round) const {
  if (defect(Defect::group_full_by_own_steps)) round -= std::min(round, jumped_);
  return (round + 1) % full_every_ == 0;
}

bool GroupProtocol::has_come_to_full(const Seat& seat) const {
  const bool drained_counts = defect(Defect::group_drained_counts) && seat.drained;
  const bool asked_in = defect(Defect::group_full_asks_in) && joined_ < activated_;
  const bool led_in = defect(Defect::group_leader_arrives) && seats_[0].arrived_at == joined_;
  return seat.arrived_at == joined_ || drained_counts || asked_in || led_in;
}

bool GroupProtocol::may_join() const {
  if (stopped_ || joined_ != complete_) return false;
  if (full(joined_)) return std::ranges::all_of(seats_, [this](const Seat& seat) { return has_come_to_full(seat); });
  // The result of a full round is what stands in the next block: it must have been taken.
  const bool full_taken = joined_ == 0 || !full(joined_ - 1) ||
                          std::ranges::all_of(seats_, [this](const Seat& seat) { return seat.taken >= joined_; });
  return joined_ < activated_ && (full_taken || defect(Defect::group_full_replaced));
}

std::optional<GroupProtocol::Action> GroupProtocol::tell_counter() {
  for (Seat& seat : seats_) {
    if (seat.drained && !seat.drain_told) {
      seat.drain_told = true;
      if (!is_counter()) return Action{.kind = Action::Kind::drain, .rank = seat.rank};
      drained_peers_.insert(seat.rank);
    }
    if (quorum_ == 0 || full(complete_) || seat.arrived_at != complete_ || seat.told_of == complete_) continue;
    seat.told_of = complete_;
    if (!is_counter()) return Action{.kind = Action::Kind::arrive, .round = complete_, .rank = seat.rank};
    arrivals_at(complete_).ranks.insert(seat.rank);
  }
  return std::nullopt;
}

/// Whether this rank starts round complete(), a group round that has not started.
bool GroupProtocol::may_start_open() {
  // The counter finishes the block when no application is left that would.
  if (is_counter() && drained_peers_.count() == ranks_ && !defect(Defect::group_nobody_finishes)) return true;
  if (quorum_ == 0)
    return std::ranges::any_of(seats_, [this](const Seat& seat) { return seat.arrived_at == complete_; });
  if (!is_counter()) return false;
  const RankSet& arrived = arrivals_at(complete_).ranks;
  if (arrived.count() == 0) return false;
  RankSet come = arrived;
  come |= drained_peers_;
  return come.count() >= quorum_;
}

std::optional<GroupProtocol::Action> GroupProtocol::next_action() {
  if (stopped_) return std::nullopt;
  if (auto telling = tell_counter()) return telling;
  if (!full(complete_) && activated_ <= complete_ && may_start_open()) activated_ = complete_ + 1;
  if (activated_ <= forwarded_) return std::nullopt;
  forwarded_ = activated_;
  return Action{.kind = Action::Kind::activate, .round = activated_ - 1};
}

}  // namespace stretto
