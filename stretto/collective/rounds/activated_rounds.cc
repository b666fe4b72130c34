#include "stretto/collective/rounds/activated_rounds.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/collective/rounds/round_plans.h"

namespace stretto {

ActivatedRounds::Plan::Plan(Schedule of, const Activation& activation)
    : schedule(std::move(of)),
      join(schedule.find("join")),
      internal(activation == Activation::none() ? kNoOp : schedule.find("internal")) {}

ActivatedRounds::ActivatedRounds(Engine& engine, RoundProtocol protocol, MakeSchedule make)
    : engine_(engine), make_(std::move(make)), protocol_(std::move(protocol)) {}

void ActivatedRounds::act(TimePoint now, PartialObserver* observer, bool may_start) {
  while (const auto action = protocol_.next_action(now, may_start)) {
    if (action->kind != RoundAction::Kind::activate) {
      tell_counter(engine_, id_, *action);
      continue;
    }
    if (observer != nullptr && engine_.rank() == RoundProtocol::counter() && !protocol_.full(action->round)) {
      observer->started(action->round, engine_.size() - protocol_.missing().count());
    }
    open_activated(protocol_.policy().encode());
  }
}

bool ActivatedRounds::admit(Round round, const Envelope& envelope) {
  const bool full = Policy::decode(envelope.note).kind == Policy::Kind::full;
  if (!protocol_.message_of(round, full)) return false;
  open_activated(envelope.note);
  return true;
}

void ActivatedRounds::open_activated(std::uint64_t note) {
  if (opened_ == protocol_.activated()) return;
  // A rank starts a round when it has completed the one before, which every rank had joined by then: so this rank has
  // opened all rounds before the activated one.
  const Round round = opened_++;
  STRETTO_CHECK(opened_ == protocol_.activated(), "round ", protocol_.activated() - 1, " starts before round ", round);
  if (round == protocol_.complete()) note = protocol_.policy().encode();
  Plan& plan = plan_for(Policy::decode(note));
  plan.last_opened = round;
  ++plan.open_rounds;
  open_rounds_.push_back({round, &plan});
  engine_.open(id_, round, plan.schedule, note);
  if (plan.internal != kNoOp) engine_.trigger(id_, round, plan.internal);
}

ActivatedRounds::Plan& ActivatedRounds::plan_for(const Policy& policy) {
  const Activation activation = activation_of(policy);
  const auto known = plans_.find(activation);
  if (known != plans_.end()) return known->second;
  drop_idle_plans(plans_, engine_, id_);
  return plans_.try_emplace(activation, make_(activation), activation).first->second;
}

void ActivatedRounds::retired(Round round) {
  --plan_of(round).open_rounds;
  std::erase_if(open_rounds_, [round](const OpenRound& open) { return open.round == round; });
}

ActivatedRounds::Plan& ActivatedRounds::plan_of(Round round) {
  const auto open = std::ranges::find(open_rounds_, round, &OpenRound::round);
  STRETTO_CHECK(open != open_rounds_.end(), "round ", round, " is not open");
  return *open->plan;
}

void ActivatedRounds::may_be_joined(Round round) {
  STRETTO_CHECK(round == joinable_, "round ", round, " may be joined before ", joinable_);
  ++joinable_;
}

void ActivatedRounds::finish_join(Round round) {
  engine_.finish(id_, round, plan_of(round).join);
}

}  // namespace stretto
