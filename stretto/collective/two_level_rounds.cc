#include "stretto/collective/two_level_rounds.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/board/partial_record.h"

namespace stretto {

TwoLevelRounds::TwoLevelRounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options)
    : BoardRounds(engine, std::move(buckets), options, {engine.rank(), engine.size(), options.seats}) {
  if (seating_.leads()) {
    between_ = std::make_unique<ActivatedRounds>(
        engine,
        RoundProtocol(engine.rank(), engine.size(), options.max_lag, rule_of(options, engine.size()), seating_.here()),
        options.max_lag, [this](const Activation& activation) { return schedule_between(activation); });
  }
  enroll();
  if (between_ != nullptr) between_->enroll(id_);
}

Schedule TwoLevelRounds::schedule_between(const Activation& activation) const {
  const Activation of_boards{activation.how, seating_.board_of(activation.root)};
  return partial_allreduce_schedule(seating_.board(), seating_.boards(), buckets_, options_.op, options_.order,
                                    of_boards)
      .among(seating_.leaders(), seating_.ranks);
}

// ---- the application's thread ----

/// The leader's own engine is driven by who has just come, and waits.
void TwoLevelRounds::tell_leader() {
  if (!seating_.leads()) engine_.arena()->ring(seating_.leader());
}

void TwoLevelRounds::bucket_ready(Contribution& contribution) {
  BoardRounds::bucket_ready(contribution);
  // Who hands over bucket by bucket does not wait yet.
  if (seating_.leads() && board_.all_have(contribution.ready.load(std::memory_order_relaxed))) {
    engine_.doorbell().ring();
  }
}

void TwoLevelRounds::set_arrived(Round round) {
  const bool full = open_policy(round).kind == Policy::Kind::full;
  BoardRounds::set_arrived(round);
  if (!full || board_.all_have_come()) tell_leader();
}

bool TwoLevelRounds::set_handed(Round handed) {
  handed_.store(handed, std::memory_order_relaxed);
  if (!seat_.hand_over(handed)) return false;
  tell_leader();
  return seating_.leads();
}

void TwoLevelRounds::set_drained() {
  BoardRounds::set_drained();
  tell_leader();
}

// ---- whoever drives ----

bool TwoLevelRounds::poll(TimePoint now) {
  const bool more = BoardRounds::poll(now);
  if (between_ == nullptr || failed()) return more;
  send_what_is_summed();
  between_->act(now, observer_);
  return more || std::exchange(changed_, false);
}

TimePoint TwoLevelRounds::poll_by() const {
  return between_ == nullptr || failed() ? TimePoint::never() : between_->protocol().act_by();
}

bool TwoLevelRounds::admit(Round round, const Envelope& envelope) {
  return between_ != nullptr && !failed() && between_->admit(round, envelope);
}

void TwoLevelRounds::control(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  if (between_ == nullptr || !between_->control(envelope)) Rounds::control(peer, envelope, head);
}

bool TwoLevelRounds::call(Round round, OpId op, std::uint32_t hook) {
  if (hook == kJoinHook) {
    between_->may_be_joined(round);
    changed_ = true;
    return false;
  }
  waiting_bucket_ = hook - kFirstReadyHook;
  if (memory_.bucket_summed(round, waiting_bucket_)) return true;
  waiting_op_ = op;
  return false;
}

/// The protocol hears of the seats here, and says what is to be done next, in poll().
bool TwoLevelRounds::may_start(Round round, const Attendance& attendance) {
  if (between_ == nullptr) return false;
  RoundProtocol& protocol = between_->protocol();
  if (protocol.stopped()) return false;
  STRETTO_CHECK(protocol.complete() == round, "the board is at round ", round, ", its leader at ", protocol.complete());
  for (int seat = 0; seat < seating_.here(); ++seat) {
    if (attendance.drained.contains(seat)) protocol.application_drained(seat);
    if (seat > 0 && defect(Defect::leader_speaks_for_itself)) continue;
    if (attendance.arrived.contains(seat)) protocol.application_arrived(round, seat);
  }
  if (!protocol.may_join_but_for_lag() || between_->joinable() == round) return false;
  // Sends of the last round that had its sum or its result in the same place have left.
  const auto places = std::min(PartialMemory::kSums, static_cast<Round>(options_.max_lag));
  return round < memory_.words().left.load(std::memory_order_relaxed) + places;
}

void TwoLevelRounds::started(Round round, const Attendance&) {
  RoundProtocol& protocol = between_->protocol();
  Round least = ~Round{0};
  for (int seat = 0; seat < seating_.here(); ++seat) {
    least = std::min(least, Round{memory_.handed(seat).load(std::memory_order_relaxed)});
  }
  protocol.application_handed(least);
  STRETTO_CHECK(protocol.may_join(), "the board starts round ", round, " with ", least, " handed over");
  protocol.join();
  leaving_.push_back(round);
  in_flight_.fetch_add(1, std::memory_order_release);
}

void TwoLevelRounds::send_what_is_summed() {
  const Round round = between_->protocol().complete();
  if (between_->protocol().joined() == round) return;  // none is in flight
  if (bound_ == round && memory_.bucket_summed(round, 0)) {
    RoundHeader header = read_own_record(memory_, round);
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      engine_.bind(id_, round, contribution_buffer(i), {memory_.sum(round, i).data(), !header.empty()});
      engine_.bind(id_, round, sum_buffer(i, buckets_.size()), {memory_.result(round, i).data(), false});
    }
    engine_.header(id_, round, contribution_buffer(0)) = std::move(header);
    ++bound_;
    between_->finish_join(round);
  }
  if (waiting_op_ != kNoOp && memory_.bucket_summed(round, waiting_bucket_)) {
    engine_.finish(id_, round, std::exchange(waiting_op_, kNoOp));
  }
}

void TwoLevelRounds::completed(Round round) {
  const RoundHeader& header = engine_.header(id_, round, sum_buffer(0, buckets_.size()));
  changed_ = true;
  between_->protocol().round_completed(round, header);
  board_.end(round, header);
}

void TwoLevelRounds::retired(Round round) {
  changed_ = true;
  std::erase(leaving_, round);
  const Round left = leaving_.empty() ? between_->protocol().joined() : *std::ranges::min_element(leaving_);
  // Pairs with PartialMemory::sum_is_free().
  memory_.words().left.store(left, std::memory_order_release);
  in_flight_.fetch_sub(1, std::memory_order_release);
}

}  // namespace stretto
