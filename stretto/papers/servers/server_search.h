#pragma once

#include <cstdint>

#include "stretto/check/harness/job_search.h"

namespace stretto {

inline constexpr Situation kServerReaches[] = {{"gradients dropped by k-sync", 0.01},
                                               {"gradients taken by a newer version than they were computed on", 0.01},
                                               {"versions of fewer than k gradients", 0.01},
                                               {"values newer than the version named", 0.01},
                                               {"answers of ssp with steps that the asking rank has not made", 0.01},
                                               {"gradients of the next phase pushed before a server has gone on", 0.01},
                                               {"phases for which a rank has no batch", 0.01},
                                               {"gradients of steps that were passed", 0.01}};

/// Runs the job of `seed` through the real engine: ranks push integers to a ParameterServer of any mode, with any
/// number of servers and buckets, over slow ranks and links, in one to three phases with different numbers of steps;
/// bucket by bucket, reading each when it is there, or all together; in half of the jobs some steps bring no gradient.
/// ServerOracle checks every gradient that a server
/// takes and every value that a rank is answered; where a phase ends, that all ranks have the same values, with every
/// gradient pushed before it and none after; in the end that no rank waits, and that every bucket has taken or dropped
/// every gradient once.
void run_server_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

}  // namespace stretto
