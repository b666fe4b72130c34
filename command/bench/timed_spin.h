#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "command/statistics/comparison.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

/// A measurement of how much ranks that wait in an allreduce slow down the rank that computes.
struct SpinExperiment {
  int pairs = 5;                                  ///< of measurements, while the others sleep and while they wait
  Duration work = std::chrono::milliseconds(60);  ///< how long rank 0 computes, about
};

/// The values of a reading, for ours and for peers: milliseconds of the work while the others sleep, while they wait,
/// and the second over the first; medians over the pairs.
inline constexpr std::size_t kSpinValues = 3;

/// Ours: rank 0 computes, the others wait for it in an Allreduce. Errc as run_job().
Result<std::vector<Reading>> measure_spin(int ranks, const SpinExperiment& experiment,
                                          std::span<const std::uint64_t> sizes);

}  // namespace stretto::command
