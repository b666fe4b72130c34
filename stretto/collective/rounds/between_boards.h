#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "stretto/board/partial_board.h"
#include "stretto/board/partial_memory.h"
#include "stretto/collective/base/collective_failure.h"
#include "stretto/collective/rounds/activated_rounds.h"
#include "stretto/collective/rounds/partial_observer.h"
#include "stretto/collective/rounds/partial_options.h"
#include "stretto/collective/rounds/seating.h"

namespace stretto {

/// Ties one board of a partial allreduce to the other boards of its job: a part of BoardRounds, which has none where
/// there is one board. To the schedule between the boards a board is one rank: its leader brings the sum of all ranks
/// at the board. Arrivals and drains are counted rank by rank.
///
/// At a board everything is as on a single one, but that the leader alone starts a round, when RoundProtocol says so,
/// and ends it, when the schedule between the boards is through. The schedule takes bucket after bucket, each as soon
/// as the board has summed it. The other ranks ring the leader when they arrive, drain, hand over a result that a round
/// was held for, or sum the last piece of a bucket. The leader's helper thread does its part while its application
/// computes. A board has one round in flight at a time.
class BetweenBoards final : private RoundOwner {
 public:
  /// Registers with the engine, on every rank. All arguments outlive this object.
  BetweenBoards(Engine& engine, const Seating& seating, const PartialOptions& options, PartialMemory& memory,
                PartialBoard& board, CollectiveFailure& failure);
  /// The engine steps it no more (Rounds::withdraw()).
  void withdraw() { engine_.remove(id_); }
  /// Requires: before the first step of the engine; must outlive it.
  void observe(PartialObserver& observer) { observer_ = &observer; }

  // ---- the application's thread ----

  /// Rings the leader. `drives`: the calling thread drives this rank's engine next, so that a leader need not ring
  /// itself.
  void tell_leader(bool drives);
  /// No buffers of a round are in use any more.
  bool idle() const { return in_flight_.load(std::memory_order_acquire) == 0; }

  // ---- the driving thread: the board's rule (PartialRule), which only the leader's answers ----

  /// Tells the protocol of the arrivals and drains in `attendance`. Returns whether the board may start the round: the
  /// `join` of the leader's schedule has fired.
  bool may_start(Round round, const Attendance& attendance);
  void started(Round round);
  /// Whether a condition of may_start() has changed since the last call: then the leader steps the board again. Asked
  /// when a step of the board has ended, since that may have begun before the change.
  bool take_change() { return std::exchange(changed_, false); }

 private:
  bool poll(TimePoint now) override;
  TimePoint poll_by() const override;
  bool admit(Round round, const Envelope& envelope) override;
  bool call(Round round, OpId op, std::uint32_t hook) override;
  void completed(Round round) override;
  void retired(Round round) override;
  void control(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void lost(int, const Error&) override {}  // BoardRounds hears of it, too, and fails
  void broken(const Error& reason) override { failure_.fail(reason, true); }

  Schedule schedule_between(const PartialOptions& options, const Activation& activation) const;
  void send_what_is_summed();

  Engine& engine_;
  const Seating& seating_;
  PartialMemory& memory_;
  PartialBoard& board_;
  CollectiveFailure& failure_;
  const int max_lag_;
  const RoundHeader::Names names_;  // in headers that travel between the boards
  PartialObserver* observer_ = nullptr;

  // The leader's; the driving thread's.
  std::unique_ptr<ActivatedRounds> rounds_;  // null: this rank does not lead
  CollectiveId id_ = 0;
  Round bound_ = 0;                 // rounds whose buffers have been bound to the schedule
  std::size_t waiting_bucket_ = 0;  // the bucket that waiting_op_ waits for
  OpId waiting_op_ = kNoOp;         // the `ready.i` that waits for the board's sum; kNoOp: none waits
  std::vector<Round> leaving_;      // rounds that were started and have not retired
  std::atomic<int> in_flight_{0};   // leaving_.size(), for the application's thread
  bool changed_ = false;            // take_change()
};

}  // namespace stretto
