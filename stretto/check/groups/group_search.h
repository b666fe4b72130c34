#pragma once

#include <cstdint>

#include "stretto/check/job_search.h"

namespace stretto {

inline constexpr Situation kGroupReaches[] = {{"stale sums"},
                                              {"sums passed over"},
                                              {"jumps"},
                                              {"unequal groups"},
                                              {"quorums"},
                                              {"full rounds"},
                                              {"own sums"},
                                              {"rounds on a board"},
                                              {"rounds on several boards"},
                                              {"steps put on a mean"},
                                              {"rounds on several hosts"}};

/// Runs the job of `seed` on the real engine and the real GroupAllreduce: ranks that publish models in a prime field,
/// some of them slow, over links some of which are slow or on a board, with groups of any size. Checks G1 to G11
/// (docs/groups.md). `over`: how they meet; nothing: drawn.
void run_group_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

}  // namespace stretto
