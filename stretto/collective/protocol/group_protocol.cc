#include "stretto/collective/protocol/group_protocol.h"

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"

namespace stretto {

GroupProtocol::GroupProtocol(const std::vector<int>& here, int ranks, Round full_every, int quorum)
    : ranks_(ranks), full_every_(full_every), quorum_(quorum), roll_(here, ranks), taken_(here.size()) {}

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

void GroupProtocol::peer_arrived(int peer, Round round, TimePoint now) {
  if (round >= complete_) roll_.arrived(peer, round, now);
}

void GroupProtocol::round_completed(bool all_drained) {
  STRETTO_CHECK(joined_ == complete_ + 1, "round ", complete_, " completes, and ", joined_, " rounds are joined");
  ++complete_;
  stopped_ = all_drained;
  roll_.forget_before(complete_);
}

bool GroupProtocol::full(Round round) const {
  if (defect(Defect::group_full_by_own_steps)) round -= std::min(round, jumped_);
  return (round + 1) % full_every_ == 0;
}

bool GroupProtocol::has_come_to_full(const RollCall::Seat& seat) const {
  const bool drained_counts = defect(Defect::group_drained_counts) && seat.drained;
  const bool asked_in = defect(Defect::group_full_asks_in) && joined_ < activated_;
  const bool led_in = defect(Defect::group_leader_arrives) && has_arrived_at(joined_);
  return seat.arrived_at == joined_ || drained_counts || asked_in || led_in;
}

bool GroupProtocol::may_join() const {
  if (stopped_ || joined_ != complete_) return false;
  if (full(joined_)) {
    return std::ranges::all_of(roll_.seats(), [this](const RollCall::Seat& seat) { return has_come_to_full(seat); });
  }
  // The result of a full round is what stands in the next block: it must have been taken.
  const bool full_taken = joined_ == 0 || !full(joined_ - 1) ||
                          std::ranges::all_of(taken_, [this](Round before) { return before >= joined_; });
  return joined_ < activated_ && (full_taken || defect(Defect::group_full_replaced));
}

/// Whether this rank starts round complete(), a group round that has not started.
bool GroupProtocol::may_start_open() const {
  // The counter finishes the block when no application is left that would.
  if (roll_.is_counter() && roll_.drained().count() == ranks_ && !defect(Defect::group_nobody_finishes)) return true;
  if (quorum_ == 0) {
    return std::ranges::any_of(roll_.seats(),
                               [this](const RollCall::Seat& seat) { return seat.arrived_at == complete_; });
  }
  return roll_.at(complete_) != nullptr && roll_.come_to(complete_).count() >= quorum_;
}

std::optional<RoundAction> GroupProtocol::next_action(TimePoint now) {
  if (stopped_) return std::nullopt;
  if (auto drain = roll_.tell_of_drains()) return drain;
  if (quorum_ != 0 && !full(complete_)) {
    if (auto arrival = roll_.tell_of_arrivals(complete_, now)) return arrival;
  }
  if (!full(complete_) && activated_ <= complete_ && may_start_open()) activated_ = complete_ + 1;
  if (activated_ <= forwarded_) return std::nullopt;
  forwarded_ = activated_;
  return RoundAction{.kind = RoundAction::Kind::activate, .round = activated_ - 1};
}

}  // namespace stretto
