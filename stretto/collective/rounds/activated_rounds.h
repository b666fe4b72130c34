#pragma once

#include <functional>
#include <map>
#include <vector>

#include "stretto/collective/protocol/protocol.h"
#include "stretto/collective/rounds/counter_words.h"
#include "stretto/collective/rounds/partial_observer.h"
#include "stretto/collective/schedules/round_schedules.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// Carries out the decisions of a RoundProtocol: opens the rounds that are activated, on the engine's schedules, and
/// tells the counter of arrivals and drains. The owner joins the rounds. Driver thread.
class ActivatedRounds {
 public:
  /// Makes the schedule of rounds that are activated in this way (partial_allreduce_schedule()).
  using MakeSchedule = std::function<Schedule(const Activation&)>;

  ActivatedRounds(Engine& engine, RoundProtocol protocol, MakeSchedule make);
  /// Requires: before any other call but protocol().
  void enroll(CollectiveId id) { id_ = id; }

  RoundProtocol& protocol() { return protocol_; }
  const RoundProtocol& protocol() const { return protocol_; }

  /// Carries out the actions that are due. `observer`: hears of the rounds that the counter starts; may be null.
  /// `may_start` false: starts no round.
  void act(TimePoint now, PartialObserver* observer, bool may_start = true);
  /// RoundOwner::admit(), for a job that has not failed.
  bool admit(Round round, const Envelope& envelope);
  /// Returns false for a message of another kind.
  bool control(const Envelope& envelope) { return hear_counter_word(protocol_, envelope, engine_.clock().now()); }

  /// The join operation of a round has fired: in order.
  void may_be_joined(Round round);
  /// Rounds whose join operation has fired.
  Round joinable() const { return joinable_; }
  /// Lets a round go on whose buffers are bound.
  void finish_join(Round round);
  /// The round has retired (RoundOwner::retired()): its schedule may be dropped.
  void retired(Round round);

 private:
  struct Plan {
    Plan(Schedule of, const Activation& activation);
    const Schedule schedule;
    const OpId join;
    const OpId internal;    // kNoOp: a full round, which no rank starts for others
    Round last_opened = 0;  // with this schedule
    int open_rounds = 0;    // that have not retired: the engine refers to the schedule
  };
  struct OpenRound {
    Round round;
    Plan* plan;
  };

  void open_activated(std::uint64_t note);
  Plan& plan_for(const Policy& policy);
  Plan& plan_of(Round open);

  Engine& engine_;
  const MakeSchedule make_;
  CollectiveId id_ = 0;
  RoundProtocol protocol_;
  // Made when needed. Under majority there is a schedule for each rank that may be drawn: beyond kKeptPlans the one
  // that was used least recently is dropped, unless a round that has not retired runs on it.
  std::map<Activation, Plan> plans_;
  std::vector<OpenRound> open_rounds_;  // that have not retired, in order
  Round opened_ = 0;
  Round joinable_ = 0;
};

}  // namespace stretto
