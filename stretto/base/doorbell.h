#pragma once

#include <atomic>
#include <cstdint>

#include "stretto/base/clock.h"

namespace stretto {

/// A word to sleep on, and the value it had when there was still something to wait for.
struct FutexWait {
  std::atomic<std::uint32_t>* word = nullptr;
  std::uint32_t seen = 0;
};

/// Sleeps until futex_wake() is called with one of `bits`, the word has another value, or `timeout` has passed.
void futex_sleep(FutexWait on, std::uint32_t bits, Duration timeout, bool shared);
/// Sleeps on two words that processes share; any futex_wake() on either ends it. Requires: futex_can_sleep_on_two().
void futex_sleep(FutexWait first, FutexWait second, Duration timeout);
/// Whether the kernel can sleep on two words (Linux 5.16) and lets this process do so: the same for all processes of a
/// container.
bool futex_can_sleep_on_two();
/// Wakes all that sleep on the word and have one of the bits.
void futex_wake(std::atomic<std::uint32_t>& word, std::uint32_t bits, bool shared);

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
