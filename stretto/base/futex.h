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

}  // namespace stretto
