#pragma once

#include <atomic>
#include <cstdint>

#include "stretto/base/clock.h"
#include "stretto/base/futex.h"

namespace stretto {

/// The words of one doorbell. All zero is a valid state, so they may lie in fresh shared memory.
struct DoorbellWords {
  alignas(64) std::atomic<std::uint32_t> rings{0};
  /// The thread that sleeps on `rings`: 0 for none, else a bit of Doorbell::Sleeper. Written by the sleeper's side
  /// only.
  std::atomic<std::uint32_t> sleeper{0};
};

/// Where one rank sleeps when it has nothing to do, and where board, transport and lost peers wake it.
///
/// The sleeper reads rings(), looks for work, and sleeps only if nothing has rung since: a ring is never lost.
/// At most one of the two possible sleepers is answerable at a time; the other one stays asleep at no cost
/// (futex bit sets), which lets a waiting application thread relieve the helper thread without a system call.
class Doorbell {
 public:
  enum class Sleeper : std::uint32_t { helper = 1, application = 2 };

  /// `words` must outlive the doorbell; `shared` says whether other processes ring it.
  explicit Doorbell(DoorbellWords& words, bool shared) : words_(&words), shared_(shared) {}

  /// Wakes the answerable thread. Any thread of any process may call it; costs no system call when no thread sleeps.
  void ring();

  std::uint32_t rings() const { return words_->rings.load(std::memory_order_seq_cst); }

  /// Makes `who` answerable and sleeps until the count differs from `seen`, or the word `or_on` from its value seen
  /// before (shared doorbells only), or `timeout` has passed. Afterwards no thread is answerable.
  void sleep(std::uint32_t seen, Sleeper who, Duration timeout, FutexWait or_on = {});

  /// Sleeps like sleep() but without becoming answerable: for a helper that has been relieved.
  void park(std::uint32_t seen, Sleeper who, Duration timeout);

  /// Makes `who` answerable while it is parked; clear_answerable(): no thread. The stores pair with the load in ring().
  void set_answerable(Sleeper who) {
    words_->sleeper.store(static_cast<std::uint32_t>(who), std::memory_order_seq_cst);
  }
  void clear_answerable() { words_->sleeper.store(0, std::memory_order_seq_cst); }

 private:
  DoorbellWords* words_;
  bool shared_;
};

}  // namespace stretto
