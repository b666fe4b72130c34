#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/board/partial_seat.h"
#include "stretto/collective/front.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/result_ring.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// What a PartialAllreduce runs its rounds on: messages (PartialRounds), a board (BoardRounds), or several
/// (TwoLevelRounds). Here is what all share: how a job fails, and who is asked what it is doing. Engine's side of a
/// collective; the application thread makes the calls of the first part.
class Rounds : public RoundOwner {
 public:
  Rounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options);

  // ---- the application's thread ----

  virtual Contribution& acquire() = 0;
  virtual DepositSteps deposit(Contribution& contribution) = 0;
  virtual bool deposit_pending() const = 0;
  /// A bucket of a deposit that is handed over bucket by bucket is there.
  virtual void bucket_ready(Contribution& contribution) = 0;

  virtual Round complete() const = 0;
  /// Policy of round complete() as read before. Requires: that round is not more than one ring old.
  virtual Policy open_policy(Round complete) = 0;
  /// Requires: handed ≤ round < complete().
  virtual const ResultSlot& result(Round round) = 0;
  /// The newest result, where options() keep that alone.
  virtual const ResultSlot& latest() = 0;

  virtual void set_arrived(Round round) = 0;
  /// Returns whether the engine waits for this and must be told.
  virtual bool set_handed(Round handed) = 0;
  virtual void set_drained() = 0;
  void set_ticket(Round ticket) { ticket_.store(ticket, std::memory_order_relaxed); }
  /// The last round is complete: nothing follows.
  virtual bool stopped() const = 0;
  /// Rounds whose buffers the engine still uses.
  virtual int in_flight() const = 0;
  /// Since when a round runs that was joined without the application; none if there is none.
  virtual std::optional<TimePoint> passive_since() const = 0;
  virtual void clear_passive() = 0;

  /// What the application sleeps on beside its doorbell, or null.
  virtual std::atomic<std::uint32_t>* signal() { return nullptr; }

  void request_abort(const std::string& reason);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  Error failure() const;

  /// Asks all ranks for their state; the answers so far stand in answer().
  void ask_who();
  struct Answer {
    bool here = false;
    ProtocolState state;
  };
  Answer answer(int rank) const;
  bool all_answered() const;

  virtual ProtocolState state() const = 0;  ///< engine's part; on the driving thread, or while nobody drives
  void observe(PartialObserver& observer) { observer_ = &observer; }
  virtual int num_contribution_sets() const = 0;
  virtual std::uint64_t memory_bytes() const = 0;
  const std::vector<BucketSpec>& buckets() const { return buckets_; }
  const PartialOptions& options() const { return options_; }
  Engine& engine() { return engine_; }

  enum Control : std::uint16_t { kArrive = kControlChannel, kDrain, kAbort, kWho, kWhoAnswer };

 protected:
  /// Registers with the engine: last of all in a constructor.
  void enroll() { id_ = engine_.add(*this); }
  /// What must be the same on every rank, in words; `how`: by messages, or how the board is cut.
  std::string shape(const std::string& how) const;
  /// Takes memory that all ranks share, which is also how they notice that they do not do the same. Requires: arena().
  Result<std::span<std::byte>> take_shared(std::uint64_t bytes, const std::string& how);
  /// Aborts and asks where the application wants it; fails where ranks disagree. Returns whether the rounds go on.
  bool poll_requests();
  /// Of kAbort, kWho and kWhoAnswer.
  void control(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void lost(int peer, const Error& reason) override;
  void fail(Error error, bool tell_others);
  void tell_all(std::uint16_t channel, std::uint64_t note, std::span<const std::byte> head);

  Engine& engine_;
  const std::vector<BucketSpec> buckets_;
  const PartialOptions options_;
  CollectiveId id_ = 0;
  int regions_ = 0;  // of the arena, up to this collective's
  PartialObserver* observer_ = nullptr;
  std::atomic<Round> ticket_{0};  // of the application

 private:
  std::atomic<bool> abort_wanted_{false};
  std::atomic<std::uint32_t> who_wanted_{0};
  std::atomic<bool> failed_{false};
  std::uint32_t asked_ = 0;  // owned by whoever drives

  mutable Mutex mutex_;
  Error failure_ GUARDED_BY(mutex_){Errc::aborted, ""};
  std::string abort_reason_ GUARDED_BY(mutex_);
  std::vector<Answer> answers_ GUARDED_BY(mutex_);
};

/// The rule of the rounds that `options` ask for.
PolicyRule rule_of(const PartialOptions& options, int ranks);

}  // namespace stretto
