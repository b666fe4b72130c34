#pragma once

#include <atomic>
#include <cstdint>

#include "stretto/base/clock.h"

namespace stretto::command {

/// Work whose speed is that of a core and of nothing else: passes over 32 KiB of integers, which stay in its cache.
/// Returns the seconds that so many take.
double timed_work(std::uint64_t passes);

/// The number of passes that take about `time` here, on a core of its own.
std::uint64_t calibrate(Duration time);

/// A barrier of processes over memory they share, for measurements: a process that waits sleeps on a futex and uses no
/// processor time; the last one to come sets the time at which all go on. All zero is a valid state.
class SharedBarrier {
 public:
  /// Waits until `parties` have come. Returns a time a `lead` after the last of them, the same for all: if `lead` is
  /// long enough, all are awake by then. Returns TimePoint::never() when no process has come for a minute.
  TimePoint wait(std::uint32_t parties, Duration lead);

 private:
  std::atomic<std::uint32_t> arrived_{0};
  std::atomic<std::uint32_t> generation_{0};  // all sleep on it; the store that ends a phase pairs with the loads
  std::atomic<std::int64_t> start_ns_{0};     // written before the generation moves on
};

}  // namespace stretto::command
