#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "stretto/collective/protocol/group_protocol.h"
#include "stretto/collective/rounds/counter_words.h"
#include "stretto/collective/rounds/groups/standing_models.h"
#include "stretto/collective/rounds/groups/standing_rounds.h"
#include "stretto/collective/rounds/round_plans.h"

namespace stretto {

/// The rounds of a GroupAllreduce by messages: tells GroupProtocol of the events at this rank's application and at its
/// peers, and carries out its decisions. The driver thread shares with the application thread the models and sums, and
/// the atomics below.
class GroupRounds final : public StandingRounds {
 public:
  GroupRounds(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options);

  Contribution& acquire() override { return models_.acquire().contribution; }
  void publish(Contribution& model, Round ticket) override;
  std::uint64_t versions() const override { return models_.versions(); }
  std::optional<StandingSum> read(Round from) override;
  std::optional<StandingSum> read_of(Round round) override;
  void release(Round round) override;
  bool settle(Contribution& model, Round ticket) override;
  bool may_settle() override { return models_.may_step(); }
  std::optional<StandingSum> follow(bool full) override;
  std::span<const std::byte> stands() const override { return models_.stands()->contribution.bucket(0); }
  Round complete() const override { return complete_.load(std::memory_order_acquire); }
  void set_arrived(Round round) override { arrived_.store(round + 1, std::memory_order_release); }
  void set_drained() override { drained_.store(true, std::memory_order_release); }
  void set_jumped(Round rounds) override { jumped_.store(rounds, std::memory_order_relaxed); }
  std::optional<Round> full_to_come() const override;
  bool stopped() const override { return stopped_.load(std::memory_order_acquire); }
  bool over() const override { return stopped() && in_flight_.load(std::memory_order_acquire) == 0; }
  ProtocolState state() const override;
  int num_models() const override { return models_.num_models(); }
  int num_sums() const override { return models_.num_sums(); }
  std::uint64_t bytes_per_set() const override { return models_.bytes_per_set(); }

 private:
  enum Control : std::uint16_t { kActivate = kAfterCounterWords, kQuery };

  struct Flight {
    Round round = 0;
    StandingModels::Joined memory;
    GroupPlan* plan = nullptr;
  };

  bool admit(Round round, const Envelope& envelope) override;
  bool call(Round round, OpId op, std::uint32_t hook) override;
  void completed(Round round) override;
  void retired(Round round) override;
  bool hear(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  bool may_have_ended(int peer) const override {
    return drained_.load(std::memory_order_acquire) && protocol_.may_have_drained(peer);
  }
  bool poll(TimePoint now) override;

  void freed();

  void act(TimePoint now);
  void activate_neighbours(Round round);
  void join_what_may_be();
  bool join();
  std::vector<int> group_of(Round round) const { return members(round, protocol_.full(round)); }
  void note_age(Round round, const StandingModel& model, RoundHeader& header);
  Flight& flight(Round round);
  static std::vector<std::span<const std::byte>> buckets_of(const Contribution& model);

  StandingModels models_;
  std::vector<std::span<const std::byte>> stands_;  // what follow() has returned; the application thread's

  // The driver thread's.
  GroupProtocol protocol_;
  GroupPlans plans_;
  std::vector<Flight> flights_;      // joined and not retired, in order
  Round ages_ = 0, oldest_age_ = 0;  // of the models in the group rounds since the last full one

  // Written by the application, read by the engine; releases pair with the acquires in poll().
  std::atomic<Round> arrived_{0};  // round + 1; 0: none
  std::atomic<Round> took_{0};
  std::atomic<bool> drained_{false};
  std::atomic<Round> jumped_{0};

  // Written by the engine, read by the application.
  std::atomic<Round> complete_{0};
  std::atomic<bool> held_{false};  // the engine waits for memory
  std::atomic<bool> stopped_{false};
  std::atomic<int> in_flight_{0};  // rounds that were joined and have not retired
};

}  // namespace stretto
