#pragma once

#include <cstdint>

#include "stretto/check/job_search.h"

namespace stretto {

inline constexpr Situation kDilocoReaches[] = {{"full rounds", 0.02},
                                               {"partial rounds", 0.02},
                                               {"stale pseudo-gradients", 0.02},
                                               {"exchanges without a round", 0.02},
                                               {"weights kept that are not the outer model", 0.02}};

/// Runs the job of `seed` through the real engine, the real PartialAllreduce by messages and the real OuterPhases,
/// under the policies, speeds and faults of a Scenario: DiLoCo with an outer step of 1 and plain averaging. Models are
/// vectors of integers modulo a prime, in which one divides by the number of ranks exactly, and steps are drawn, so
/// that no two mistakes make up for each other.
///
/// Checked: after each exchange and at the end of each phase, that the weights are those taken last and the rank's own
/// steps since; whenever a round is handed over, that all ranks have the same outer model after it; after each full
/// round and at the end, that the outer model is the initial one moved by the mean of all steps so far, each once; at
/// the end, that this is every rank's weights, and that every rank has come there.
void run_diloco_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

}  // namespace stretto
