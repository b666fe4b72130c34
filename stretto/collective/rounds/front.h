#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/board/partial_seat.h"
#include "stretto/collective/rounds/contribution.h"
#include "stretto/kernel/bucket.h"
#include "stretto/schedule/schedule.h"

namespace stretto {

/// A rank's pending deposit, and the sets of buffers in which deposits circulate (docs/protocol.md, rule 1). The
/// application thread acquires and deposits, the engine takes and gives back; neither waits for the other for longer
/// than one compare-and-swap. A set of buffers goes back to the depositing thread's free list alone, so a pointer it
/// compares with has not been reused meanwhile.
class Front {
 public:
  /// `op` combines deposits that meet.
  Front(std::span<const BucketSpec> buckets, int num_sets, ReduceOp op);

  // ---- application thread ----

  /// A free set. Its content is left over from an earlier step.
  Contribution& acquire();

  /// Adds a contribution to the pending one. A step machine, so that a search can interleave it with the engine.
  class Deposit {
   public:
    Deposit(Front& front, Contribution& mine) : front_(front), mine_(&mine) {}
    /// One step; returns true when the deposit has been made.
    bool step();

   private:
    enum class State { look, combine, swap, in_place, put_back };

    Front& front_;
    Contribution* mine_;
    Contribution* seen_ = nullptr;
    Contribution* sum_ = nullptr;
    State state_ = State::look;
  };
  Deposit deposit(Contribution& mine) { return Deposit(*this, mine); }

  // ---- engine ----

  /// The pending deposit, or null; it belongs to the engine until give_back().
  Contribution* take() { return front_.exchange(nullptr, std::memory_order_acq_rel); }
  void give_back(Contribution* contribution);

  // ---- any thread ----

  bool pending() const { return front() != nullptr; }
  /// The pending deposit, or null; unchanged until the next deposit or take().
  const Contribution* front() const { return front_.load(std::memory_order_acquire); }
  int num_sets() const { return static_cast<int>(sets_.size()); }
  std::uint64_t bytes_per_set() const { return bytes_per_set_; }

 private:
  void combine(Contribution& sum, const Contribution& older, const Contribution& newer) const;
  void release(Contribution* contribution) { free_.push_back(contribution); }

  const std::vector<BucketSpec> buckets_;
  const ReduceOp op_;
  std::uint64_t bytes_per_set_ = 0;
  std::vector<std::unique_ptr<Contribution>> sets_;

  // The pending deposit, or null. Stores by the application's deposit pair with the engine's take().
  std::atomic<Contribution*> front_{nullptr};

  std::vector<Contribution*> free_;  // owned by the application thread
  Mutex mutex_;
  std::vector<Contribution*> returned_ GUARDED_BY(mutex_);
};

/// A deposit in the making: a step machine, so that a search can interleave it with the rounds.
class DepositSteps {
 public:
  DepositSteps() = default;  ///< it has been made
  explicit DepositSteps(Front::Deposit deposit) : steps_(std::move(deposit)) {}
  explicit DepositSteps(PartialSeat::Deposit deposit) : steps_(std::move(deposit)) {}
  /// One step; returns true when the deposit has been made.
  bool step() {
    return std::visit([](auto& deposit) { return deposit.step(); }, steps_);
  }

 private:
  struct Made {
    bool step() { return true; }
  };
  std::variant<Made, Front::Deposit, PartialSeat::Deposit> steps_;
};

}  // namespace stretto
