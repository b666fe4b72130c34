#pragma once

#include <cstdint>

#include "stretto/check/job_search.h"
#include "stretto/check/partial/bucket_oracle.h"

namespace stretto {

/// Runs the job of `seed` through the real engine: a partial allreduce of two to five buckets that have rounds of their
/// own, one or two a round, under any policy, by messages or on a board, which is one also for Over::boards; deposits
/// whole or bucket by bucket, ranks of different speeds, dropped batches, crashes. BucketOracle judges it.
void run_bucket_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

}  // namespace stretto
