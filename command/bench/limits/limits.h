#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto::command {

/// A speed that this machine cannot exceed, with any library.
struct Limit {
  std::string name;  ///< "memcpy", "sum of 8", "hand-off spin"
  int cores = 1;     ///< that work on it at once
  std::uint64_t bytes = 0;
  std::string unit;  ///< "GB/s" (more is better), "ns" (less is)
  /// Spends about `time`. Throws Failure.
  std::function<double(Duration time)> measure;
};

/// Copying, and summing k sources, that have `sizes` bytes together: bytes of the sources per second, on one core and
/// on all. Then the time of touching a page for the first time, in private and in shared memory.
std::vector<Limit> memory_limits(std::span<const std::uint64_t> sizes, std::span<const int> sources);

/// The time from one process's write until another process, which waits for it, has seen it: spinning on another core,
/// giving up the core with sched_yield, and sleeping on a futex. One way. Across cores only where there are two.
std::vector<Limit> handoff_limits();

/// out[i] = the sum over the sources of source[i]: the inner loop of a reduction. Requires: one source at least, all as
/// long as `out`.
void sum_sources(std::span<float> out, std::span<const std::span<const float>> sources);

}  // namespace stretto::command
