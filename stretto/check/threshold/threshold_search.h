#pragma once

#include <cstdint>
#include <string_view>

#include "stretto/check/job_search.h"

namespace stretto {

inline constexpr std::string_view kThresholdReaches[] = {"messages that no round needed"};

/// Runs the job of `seed` through the real engine: rank 0 receives integers from all others into scratch memory, parts
/// of it, or given memory, and takes those that come first, k of n, with bodies that come in pieces. Checks that each
/// round holds whole vectors of that round alone, enough of them, and that nobody writes to the memory of a round that
/// has been retired.
JobFinding run_threshold_job(std::uint64_t seed, int ranks = 0);

}  // namespace stretto
