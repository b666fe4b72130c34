#pragma once

#include <functional>
#include <map>
#include <vector>

#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/partial_schedule.h"
#include "stretto/collective/protocol.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// Carries out what RoundProtocol decides: opens the rounds it knows to be activated, on the engine's schedules, and
/// tells the counter. Joining them is the owner's business. On the thread that drives the engine.
class ActivatedRounds {
 public:
  /// What a round's schedule is for each way to activate it (partial_allreduce_schedule()).
  using MakeSchedule = std::function<Schedule(const Activation&)>;

  ActivatedRounds(Engine& engine, RoundProtocol protocol, int max_lag, MakeSchedule make);
  /// Requires: before any other call but protocol().
  void enroll(CollectiveId id) { id_ = id; }

  RoundProtocol& protocol() { return protocol_; }
  const RoundProtocol& protocol() const { return protocol_; }

  /// Carries out all that is due. `observer`: hears what the counter starts; may be null.
  void act(TimePoint now, PartialObserver* observer);
  /// RoundOwner::admit(), for a job that has not failed.
  bool admit(Round round, const Envelope& envelope);
  /// Rounds::kArrive and kDrain. Returns false if it is neither.
  bool control(const Envelope& envelope);

  /// The join operation of a round has fired: in order.
  void may_be_joined(Round round);
  /// Rounds whose join operation has fired.
  Round joinable() const { return joinable_; }
  /// Lets a round go on whose buffers are bound.
  void finish_join(Round round);

 private:
  struct Plan {
    Plan(Schedule of, const Activation& activation);
    const Schedule schedule;
    const OpId join;
    const OpId internal;  // kNoOp: nobody starts it for others
  };

  void open_activated(std::uint64_t note);
  const Plan& plan_for(const Policy& policy);

  Engine& engine_;
  const MakeSchedule make_;
  CollectiveId id_ = 0;
  RoundProtocol protocol_;
  std::map<Activation, Plan> plans_;          // made when first needed
  std::vector<const Plan*> plans_of_rounds_;  // open ones, by round mod (W + 2)
  Round opened_ = 0;
  Round joinable_ = 0;
};

}  // namespace stretto
