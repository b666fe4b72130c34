#pragma once

#include <cstdint>

#include "stretto/check/job_search.h"
#include "stretto/check/partial/oracle.h"

namespace stretto {

/// Runs the job of `seed` through the real engine: a partial allreduce under any policy, by messages, on a board or
/// between several, over slow links and ranks, with crashes (check/partial/scenario.h). Oracle judges it.
void run_partial_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

}  // namespace stretto
