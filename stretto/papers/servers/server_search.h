#pragma once

#include <cstdint>
#include <string_view>

#include "stretto/check/job_search.h"

namespace stretto {

inline constexpr std::string_view kServerReaches[] = {"gradients dropped by k-sync",
                                                      "gradients taken by a newer version than they were computed on",
                                                      "versions of fewer than k gradients",
                                                      "values newer than the version named",
                                                      "answers of ssp with steps that the asking rank has not made",
                                                      "gradients of the next phase pushed before a server has gone on",
                                                      "phases for which a rank has no batch",
                                                      "gradients of steps that were passed"};

/// Runs the job of `seed` through the real engine: ranks push integers to a ParameterServer of any mode, with any
/// number of servers and buckets, over slow ranks and links, in one to three phases with different numbers of steps;
/// bucket by bucket, reading each when it is there, or all together; in half of the jobs some steps bring no gradient.
/// ServerOracle checks every gradient that a server
/// takes and every value that a rank is answered; where a phase ends, that all ranks have the same values, with every
/// gradient pushed before it and none after; in the end that no rank waits, and that every bucket has taken or dropped
/// every gradient once.
JobFinding run_server_job(std::uint64_t seed, int ranks = 0);

}  // namespace stretto
