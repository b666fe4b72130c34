#pragma once

#include <cstdint>

#include "stretto/check/job_search.h"

namespace stretto {

inline constexpr Situation kThresholdReaches[] = {{"messages that no round needed", 0.25}};

/// Runs the job of `seed` through the real engine: rank 0 receives integers from all others into scratch memory, parts
/// of it, or given memory, and takes those that come first, k of n, with bodies that come in pieces. Checks that each
/// round holds whole vectors of that round alone, enough of them, and that nobody writes to the memory of a round that
/// has been retired.
void run_threshold_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

}  // namespace stretto
