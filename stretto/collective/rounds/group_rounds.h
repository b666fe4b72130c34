#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stretto/collective/collective_failure.h"
#include "stretto/collective/group_allreduce.h"
#include "stretto/collective/protocol/group_protocol.h"
#include "stretto/collective/rounds/standing_models.h"
#include "stretto/collective/state_query.h"
#include "stretto/engine/engine.h"
#include "stretto/schedule/schedule.h"

namespace stretto {

/// Hears of what the rounds of a group allreduce do, in a search.
class GroupObserver {
 public:
  virtual ~GroupObserver() = default;
  /// The engine of this rank has joined a round with this model; null: it has none.
  virtual void joined(Round round, const StandingModel* model) = 0;
  /// A round is complete here.
  virtual void completed(Round round, const GroupSum& sum) = 0;
};

/// The rounds of a GroupAllreduce by messages: tells GroupProtocol of the events at this rank's application and at its
/// peers, and carries out its decisions. The driver thread shares with the application thread the models and sums, and
/// the atomics below.
class GroupRounds final : private RoundOwner {
 public:
  GroupRounds(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options);
  /// The engine steps it no more. Requires: an Engine::Pause that lives until this is destroyed.
  void withdraw() { engine_.remove(id_); }

  // ---- the application's thread ----

  StandingModels& models() { return models_; }
  Round complete() const { return complete_.load(std::memory_order_acquire); }
  bool full(Round round) const { return (round + 1) % options_.full_every == 0; }
  void set_arrived(Round round) { arrived_.store(round + 1, std::memory_order_release); }
  void set_took(Round before) { took_.store(before, std::memory_order_release); }
  void set_drained() { drained_.store(true, std::memory_order_release); }
  void set_ticket(Round ticket) { ticket_.store(ticket, std::memory_order_relaxed); }
  void set_jumped(Round rounds) { jumped_.store(rounds, std::memory_order_relaxed); }
  /// Models or sums have become free: rings the engine if it waits for that.
  void freed();
  /// The last round is complete.
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  /// The last round is complete, and the engine uses the memory of no round any more.
  bool over() const { return stopped() && in_flight_.load(std::memory_order_acquire) == 0; }

  CollectiveFailure& failure() { return failure_; }
  StateQuery& query() { return query_; }
  Engine& engine() { return engine_; }
  const std::vector<BucketSpec>& buckets() const { return buckets_; }
  const GroupOptions& options() const { return options_; }

  /// Driver thread, or while no thread drives.
  ProtocolState state() const;
  void observe(GroupObserver& observer) { observer_ = &observer; }

 private:
  enum Control : std::uint16_t { kActivate = kControlChannel, kArrive, kDrain, kQuery };

  struct Plan {
    explicit Plan(Schedule of) : schedule(std::move(of)) {}
    const Schedule schedule;
    Round last_opened = 0;  // with this schedule
    int open_rounds = 0;    // that have not retired: the engine refers to the schedule
  };
  struct Flight {
    Round round = 0;
    StandingModels::Joined memory;
    Plan* plan = nullptr;
  };

  bool admit(Round round, const Envelope& envelope) override;
  bool call(Round round, OpId op, std::uint32_t hook) override;
  void completed(Round round) override;
  void retired(Round round) override;
  void control(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void lost(int peer, const Error& reason) override;
  void left(int peer, const Error& reason) override;
  void broken(const Error& reason) override { failure_.fail(reason, true); }
  bool poll(TimePoint now) override;

  void act();
  void activate_neighbours(Round round);
  void join_what_may_be();
  void join();
  std::vector<int> members(Round round) const;
  Plan& plan_for(const std::vector<int>& members);
  void note_age(Round round, const StandingModel& model, RoundHeader& header);
  Flight& flight(Round round);

  Engine& engine_;
  const std::vector<BucketSpec> buckets_;
  const GroupOptions options_;
  const Groups groups_;
  const std::string description_;  // everything that must be the same on every rank
  CollectiveId id_ = 0;
  CollectiveFailure failure_;
  StateQuery query_;
  StandingModels models_;

  // The driver thread's.
  GroupProtocol protocol_;
  std::map<std::vector<int>, Plan> plans_;  // by members; those used least recently are dropped
  std::vector<Flight> flights_;             // joined and not retired, in order
  GroupObserver* observer_ = nullptr;
  Round ages_ = 0, oldest_age_ = 0;  // of the models in the group rounds since the last full one

  // Written by the application, read by the engine; releases pair with the acquires in poll().
  std::atomic<Round> arrived_{0};  // round + 1; 0: none
  std::atomic<Round> took_{0};
  std::atomic<bool> drained_{false};
  std::atomic<Round> ticket_{0};
  std::atomic<Round> jumped_{0};

  // Written by the engine, read by the application.
  std::atomic<Round> complete_{0};
  std::atomic<bool> held_{false};  // the engine waits for memory
  std::atomic<bool> stopped_{false};
  std::atomic<int> in_flight_{0};  // rounds that were joined and have not retired
};

}  // namespace stretto
