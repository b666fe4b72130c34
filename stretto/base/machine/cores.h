#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// The cores that this process may run on, by their numbers, at least one.
std::vector<int> usable_cores();

/// How many cores this process can keep busy at once, at least one: those it may run on, and no more than the quota of
/// its control groups gives in a period, rounded up. As it was at the first call of this process. Thread-safe.
int num_cores();

/// The same, read anew. `root` stands before /proc and /sys (tests).
int count_cores(const std::string& root = "");

/// From now on the calling thread runs on these cores alone, by their numbers. Throws Failure (Errc::io). Requires: at
/// least one.
void pin_thread(std::span<const int> cores);

/// From now on the calling thread goes before others (a nice value of −10). Returns whether the system lets it, which
/// it does for root alone, as a rule.
bool prefer_thread();

/// Processor time that the calling thread has used.
Duration thread_time();

/// The kernel's account of how it shares cores among threads; a field that it does not tell is empty.
struct CoreSharing {
  std::optional<std::uint64_t> slice_ns;                ///< that a thread runs for before another one has its turn
  std::optional<std::uint64_t> throttled_periods;       ///< in which the control group's quota was used up, so far
  std::optional<std::uint64_t> throttled_microseconds;  ///< that the group's threads stood still for it, so far

  /// The same slice, and what has been throttled since `before`.
  CoreSharing since(const CoreSharing& before) const;
  friend bool operator==(const CoreSharing&, const CoreSharing&) = default;
};

/// Reads it anew; takes some files. `root` stands before /proc and /sys (tests). Thread-safe.
CoreSharing core_sharing(const std::string& root = "");

/// Tells whether a thread leaves its core to others, as a thread does that waits for an accelerator. One thread.
class Idleness {
 public:
  /// Two clocks: the time, and how long of it the calling thread has run.
  struct Reading {
    std::chrono::nanoseconds wall, ran;
  };

  explicit Idleness(Reading (*read)() = read_clocks) : read_(read) { begin(); }
  /// Counts from here on, for the calling thread.
  void begin() { last_ = read_(); }
  /// Whether the calling thread has run for less than half of the time since the last begin() or idles().
  bool idles();

 private:
  /// Of the machine.
  static Reading read_clocks();

  Reading (*read_)();
  Reading last_;
};

}  // namespace stretto
