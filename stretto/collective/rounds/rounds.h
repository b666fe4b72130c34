#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/collective/collective_failure.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/protocol/protocol_state.h"
#include "stretto/collective/rounds/deposit_steps.h"
#include "stretto/collective/rounds/partial_observer.h"
#include "stretto/collective/rounds/result_ring.h"
#include "stretto/collective/state_query.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// The rounds of a PartialAllreduce: by messages (MessageRounds) or on a board (BoardRounds), which may be one of
/// several. This part is the same for both: how the collective fails, and how ranks ask one another for their state.
/// Heirs are clients of the engine, and pass control messages and losses on to this part. BucketRounds, which has
/// rounds of these two kinds for each bucket, is no client: it leaves all of this to them.
class Rounds {
 public:
  virtual ~Rounds() = default;
  /// `how`: in words how rounds are held, which must be the same on every rank: by messages, or how the board is cut.
  Rounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options, const std::string& how);
  /// The engine steps it no more. Requires: an Engine::Pause that lives until this is destroyed.
  virtual void withdraw() { engine_.remove(id_); }

  // ---- the application's thread ----

  virtual Contribution& acquire() = 0;
  virtual DepositSteps deposit(Contribution& contribution) = 0;
  virtual bool deposit_pending() const = 0;
  /// A bucket of a deposit that is handed over bucket by bucket is there.
  virtual void bucket_ready(Contribution& contribution) = 0;

  virtual Round complete() const = 0;
  /// Policy of round complete() as read before. Requires: that round is not more than one ring old.
  virtual Policy open_policy(Round complete) = 0;
  /// The result to hand over next: that of `round`, the number of results handed over so far; with delivery latest the
  /// newest, which may be of an earlier round if that has been handed over already. Requires: round < complete().
  virtual const ResultSlot& result(Round round) = 0;
  /// The rounds that result(), as called last, has passed over; none unless delivery is latest.
  virtual std::span<const PassedRound> passed() { return {}; }

  virtual void set_arrived(Round round) = 0;
  /// Returns whether a round is held for this, so that the engine must be rung.
  virtual bool set_handed(Round handed) = 0;
  virtual void set_drained() = 0;
  virtual void set_ticket(Round ticket) { ticket_.store(ticket, std::memory_order_relaxed); }
  /// The last round is complete: nothing follows.
  virtual bool stopped() const = 0;
  /// The last round is complete, and the engine uses the buffers of no round any more.
  virtual bool over() const = 0;
  /// Since when a round runs that was started without this rank's application; said once. None: there is no such round.
  virtual std::optional<TimePoint> take_passive_since() = 0;

  /// The word on which the application thread sleeps beside its doorbell, or null.
  virtual std::atomic<std::uint32_t>* signal() { return nullptr; }

  virtual void abort(Driver& driver, const Error& why) { failure_.abort(driver, why); }
  virtual bool failed() const { return failure_.failed(); }
  virtual std::optional<Error> failure() const { return failure_.error(); }

  /// Which ranks keep the open round from being over (Collective::who_is_missing()).
  virtual std::string who_is_missing(Driver& driver, Duration timeout);

  virtual ProtocolState state() const = 0;  ///< engine's part; driver thread, or while no thread drives
  virtual void observe(PartialObserver& observer) { observer_ = &observer; }
  virtual bool on_boards() const { return false; }
  virtual int num_contribution_sets() const = 0;
  virtual std::uint64_t memory_bytes() const = 0;
  const std::vector<BucketSpec>& buckets() const { return buckets_; }
  const PartialOptions& options() const { return options_; }
  Engine& engine() { return engine_; }

 protected:
  /// The heir has registered with the engine, by description_: last of all in its constructor.
  void enroll(CollectiveId id) {
    id_ = id;
    failure_.enroll(id);
    query_.enroll(id);
  }
  /// Aborts and asks where the application wants it; fails where ranks disagree. Returns whether the rounds go on.
  bool poll_requests();
  /// Of failures, and of questions how far this rank is.
  void hear(int peer, const Envelope& envelope, std::span<const std::byte> head);
  void hear_of_loss(int peer, const Error& reason);
  /// A rank leaves in order after the last round, and that comes when all have drained. `all_may_have`: as far as this
  /// rank knows. A disagreement, because of which the rank may have left, is the better reason.
  void hear_of_leaving(int peer, const Error& reason, bool all_may_have) {
    if (!all_may_have && failure_.poll()) hear_of_loss(peer, reason);
  }

  Engine& engine_;
  const std::vector<BucketSpec> buckets_;
  const PartialOptions options_;
  const std::string description_;  // everything that must be the same on every rank
  CollectiveId id_ = 0;
  CollectiveFailure failure_;
  PartialObserver* observer_ = nullptr;
  std::atomic<Round> ticket_{0};  // of the application

 private:
  StateQuery query_;
};

/// Whether headers that travel by messages name the ranks.
inline bool names_ranks(const PartialOptions& options, int ranks) {
  return options.name_all_ranks || ranks <= RoundHeader::kMaxNamedRanks;
}

/// The rule of the rounds that `options` ask for.
PolicyRule rule_of(const PartialOptions& options, int ranks);

}  // namespace stretto
