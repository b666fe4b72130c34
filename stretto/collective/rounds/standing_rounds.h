#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/collective/collective_failure.h"
#include "stretto/collective/group_allreduce.h"
#include "stretto/collective/groups/groups.h"
#include "stretto/collective/protocol/protocol_state.h"
#include "stretto/collective/state_query.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// A sum over the members of a group, as it lies in the memory of the rounds.
struct StandingSum {
  Round round = 0;
  const RoundHeader* header = nullptr;  ///< of the members
  int members = 0;
  std::uint64_t own_version = 0;      ///< of this rank's model in it
  const Contribution* own = nullptr;  ///< that model, with GroupOptions::keep_own; else null
  std::span<const std::span<const std::byte>> buckets;
};

/// Hears of what the rounds of a group allreduce do, in a search.
class GroupObserver {
 public:
  virtual ~GroupObserver() = default;
  /// A rank's model of this version goes into a round; 0: it has none. By messages: this rank's.
  virtual void joined(Round round, int rank, std::uint64_t version) = 0;
  /// A rank has the sum of a round. By messages: this rank.
  virtual void completed(int rank, const StandingSum& sum) = 0;
  /// With GroupOptions::moves: the step of this rank has been put on top of what stands.
  virtual void settled() {}
};

/// The rounds of a GroupAllreduce: by messages (GroupRounds) or on a board (GroupBoardRounds). This part is the same
/// for both: how the collective fails, and how ranks ask one another for their state. Heirs are clients of the engine,
/// and pass control messages and losses on to this part.
class StandingRounds {
 public:
  virtual ~StandingRounds() = default;
  /// `how`: in words how rounds are held, which must be the same on every rank. `ask`: the channel of questions.
  StandingRounds(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options, const std::string& how,
                 std::uint16_t ask);
  /// The engine steps it no more. Requires: an Engine::Pause that lives until this is destroyed.
  void withdraw() { engine_.remove(id_); }

  // ---- the application's thread ----

  /// Memory for the next model: of none that stands, is summed, or is kept by a sum.
  virtual Contribution& acquire() = 0;
  /// The model stands from now on, for round `ticket`.
  virtual void publish(Contribution& model, Round ticket) = 0;
  virtual std::uint64_t versions() const = 0;  ///< published so far
  /// The newest sum that has not been read, if it is of a round from `from` on; valid until release().
  virtual std::optional<StandingSum> read(Round from) = 0;
  /// With LateSum::own: the sum of `round`, kept since it was complete; valid until release(). Nothing: it has been
  /// read or passed over.
  virtual std::optional<StandingSum> read_of(Round) { return std::nullopt; }
  /// The application has used the result of read(), and the results of all rounds before it.
  virtual void release(Round round) = 0;

  // With GroupOptions::moves.
  /// The model after a step, from acquire(), comes to stand for round `ticket`: what stands, and what it is beyond its
  /// base. The base is what follow() returned or what has been settled last. Returns whether it does: not while a round
  /// sums what stands.
  virtual bool settle(Contribution& model, Round ticket) = 0;
  /// Whether no round sums what stands.
  virtual bool may_settle() = 0;
  /// The standing sum: the base of the next step, valid until follow() or settle() is called again. `full`: it is of a
  /// full round, and comes with its header. Nothing: it is what the application has.
  virtual std::optional<StandingSum> follow(bool full) = 0;
  /// The first bucket of what stands; in a search, between two steps of engines.
  virtual std::span<const std::byte> stands() const = 0;

  /// Rounds that are over for this rank: it waits for none of them.
  virtual Round complete() const = 0;
  bool full(Round round) const { return (round + 1) % options_.full_every == 0; }
  virtual void set_arrived(Round round) = 0;
  virtual void set_drained() = 0;
  virtual void set_jumped(Round) {}
  void set_ticket(Round ticket) { ticket_.store(ticket, std::memory_order_relaxed); }
  /// The full round at which a rank without batches has to arrive now, once it has taken what is there.
  virtual std::optional<Round> full_to_come() const = 0;
  /// The round that this rank's application waits for, or comes to next.
  virtual Round open() const { return complete(); }
  /// The last round is complete.
  virtual bool stopped() const = 0;
  /// The last round is complete, and the engine uses the memory of no round any more.
  virtual bool over() const = 0;

  /// The word on which the application thread sleeps beside its doorbell, or null.
  virtual std::atomic<std::uint32_t>* signal() { return nullptr; }

  virtual ProtocolState state() const = 0;  ///< driver thread, or while no thread drives
  void observe(GroupObserver& observer) { observer_ = &observer; }
  /// Whether acquire() has memory to give at once.
  virtual bool may_acquire() { return true; }
  virtual int num_models() const = 0;
  virtual int num_sums() const = 0;
  virtual std::uint64_t bytes_per_set() const = 0;  ///< of a model or sum
  CollectiveFailure& failure() { return failure_; }
  StateQuery& query() { return query_; }
  Engine& engine() { return engine_; }
  const std::vector<BucketSpec>& buckets() const { return buckets_; }
  const GroupOptions& options() const { return options_; }

 protected:
  /// The heir has registered with the engine, by description_: last of all in its constructor.
  void enroll(CollectiveId id) {
    id_ = id;
    failure_.enroll(id);
    query_.enroll(id);
  }
  /// This rank's group of a round; of a full one all ranks.
  std::vector<int> members(Round round, bool full) const;
  /// With GroupOptions::moves: model = stands + (model − base).
  void put_on_top(Contribution& model, std::span<const std::span<const std::byte>> stands,
                  std::span<const std::span<const std::byte>> base) const;
  /// Of failures, and of questions how far this rank is.
  void hear(int peer, const Envelope& envelope, std::span<const std::byte> head);
  void hear_of_loss(int peer, const Error& reason);
  /// A rank leaves in order after the last round, and that comes when all have drained. `all_may_have`: as far as this
  /// rank knows.
  void hear_of_leaving(int peer, const Error& reason, bool all_may_have) {
    if (!all_may_have && failure_.poll()) hear_of_loss(peer, reason);
  }

  Engine& engine_;
  const std::vector<BucketSpec> buckets_;
  const GroupOptions options_;
  const Groups groups_;
  const std::string description_;  // everything that must be the same on every rank
  CollectiveId id_ = 0;
  CollectiveFailure failure_;
  GroupObserver* observer_ = nullptr;
  std::atomic<Round> ticket_{0};  // of the application

 private:
  StateQuery query_;
};

}  // namespace stretto
