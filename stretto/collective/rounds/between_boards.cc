#include "stretto/collective/rounds/between_boards.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/board/partial_memory.h"
#include "stretto/collective/rounds/rounds.h"
#include "stretto/collective/schedules/round_schedules.h"

namespace stretto {

BetweenBoards::BetweenBoards(Engine& engine, const Seating& seating, const PartialOptions& options,
                             PartialMemory& memory, PartialBoard& board, CollectiveFailure& failure)
    : engine_(engine),
      seating_(seating),
      memory_(memory),
      board_(board),
      failure_(failure),
      max_lag_(options.max_lag),
      names_(names_in_messages(options, engine.size())) {
  id_ = engine.add(*this);
  if (!seating.leads()) return;
  rounds_ = std::make_unique<ActivatedRounds>(
      engine, RoundProtocol(seating.here(), engine.size(), options.max_lag, rule_of(options, engine.size())),
      [this, &options](const Activation& activation) { return schedule_between(options, activation); });
  rounds_->enroll(id_);
}

Schedule BetweenBoards::schedule_between(const PartialOptions& options, const Activation& activation) const {
  const Activation of_boards{activation.how, seating_.board_of(activation.root)};
  return partial_allreduce_schedule(seating_.board(), seating_.boards(), memory_.shape().buckets, options.op,
                                    options.order, of_boards)
      .among(seating_.leaders(), seating_.ranks());
}

void BetweenBoards::tell_leader(bool drives) {
  if (!seating_.leads() || !drives) seating_.ring(engine_.host(), 0);
}

bool BetweenBoards::poll(TimePoint now) {
  if (rounds_ == nullptr || failure_.failed()) return false;
  send_what_is_summed();
  rounds_->act(now, observer_);
  return changed_;
}

TimePoint BetweenBoards::poll_by() const {
  return rounds_ == nullptr || failure_.failed() ? TimePoint::never() : rounds_->protocol().act_by();
}

bool BetweenBoards::admit(Round round, const Envelope& envelope) {
  return rounds_ != nullptr && !failure_.failed() && rounds_->admit(round, envelope);
}

void BetweenBoards::control(int peer, const Envelope& envelope, std::span<const std::byte>) {
  if (rounds_ == nullptr || !rounds_->control(envelope))
    failure_.fail(CollectiveFailure::unknown(peer, envelope), true);
}

bool BetweenBoards::call(Round round, OpId op, std::uint32_t hook) {
  if (hook == kJoinHook) {
    rounds_->may_be_joined(round);
    changed_ = true;
    return false;
  }
  waiting_bucket_ = hook - kFirstReadyHook;
  if (memory_.bucket_summed(round, waiting_bucket_)) return true;
  waiting_op_ = op;
  return false;
}

// The protocol only hears of arrivals here; poll() carries out what it then decides.
bool BetweenBoards::may_start(Round round, const Attendance& attendance) {
  if (rounds_ == nullptr) return false;
  RoundProtocol& protocol = rounds_->protocol();
  if (protocol.stopped()) return false;
  STRETTO_CHECK(protocol.complete() == round, "the board is at round ", round, ", its leader at ", protocol.complete());
  for (int seat = 0; seat < seating_.seats(); ++seat) {
    if (attendance.drained.contains(seat)) protocol.application_drained(seat);
    if (seat > 0 && defect(Defect::leader_speaks_for_itself)) continue;
    if (attendance.arrived.contains(seat)) protocol.application_arrived(round, seat);
  }
  if (!protocol.may_join_but_for_lag() || rounds_->joinable() == round) return false;
  // The sends of the last round whose sum or result lay in the same place must have left.
  const auto places = std::min(PartialMemory::kSums, static_cast<Round>(max_lag_));
  return round < memory_.words().left.load(std::memory_order_relaxed) + places;
}

void BetweenBoards::started(Round round) {
  RoundProtocol& protocol = rounds_->protocol();
  Round least = ~Round{0};
  for (int seat = 0; seat < seating_.seats(); ++seat) {
    least = std::min(least, Round{memory_.handed(seat).load(std::memory_order_relaxed)});
  }
  protocol.application_handed(least);
  STRETTO_CHECK(protocol.may_join(), "the board starts round ", round, " with ", least, " handed over");
  protocol.join();
  leaving_.push_back(round);
  in_flight_.fetch_add(1, std::memory_order_release);
}

void BetweenBoards::send_what_is_summed() {
  const Round round = rounds_->protocol().complete();
  if (rounds_->protocol().joined() == round) return;  // none is in flight
  if (bound_ == round && memory_.bucket_summed(round, 0)) {
    RoundHeader header = read_own_record(memory_, round);
    header.forget_all_but(names_);
    for (std::size_t i = 0; i < memory_.shape().buckets.size(); ++i) {
      engine_.bind(id_, round, contribution_buffer(i), {memory_.sum(round, i).data(), !header.empty()});
      engine_.bind(id_, round, sum_buffer(i, memory_.shape().buckets.size()), {memory_.result(round, i).data(), false});
    }
    engine_.header(id_, round, contribution_buffer(0)) = std::move(header);
    ++bound_;
    rounds_->finish_join(round);
  }
  if (waiting_op_ != kNoOp && memory_.bucket_summed(round, waiting_bucket_)) {
    engine_.finish(id_, round, std::exchange(waiting_op_, kNoOp));
  }
}

void BetweenBoards::completed(Round round) {
  const RoundHeader& header = engine_.header(id_, round, sum_buffer(0, memory_.shape().buckets.size()));
  changed_ = true;
  rounds_->protocol().round_completed(round, header);
  board_.end(round, header);
}

void BetweenBoards::retired(Round round) {
  changed_ = true;
  rounds_->retired(round);
  std::erase(leaving_, round);
  const Round left = leaving_.empty() ? rounds_->protocol().joined() : *std::ranges::min_element(leaving_);
  // Pairs with PartialMemory::sum_is_free().
  memory_.words().left.store(left, std::memory_order_release);
  in_flight_.fetch_sub(1, std::memory_order_release);
}

}  // namespace stretto
