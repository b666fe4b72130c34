#pragma once

#include <cstdint>

#include "stretto/check/job_search.h"

namespace stretto {

inline constexpr Situation kOrderingReaches[] = {{"tensors that a rank did not bring to their buffer", 0.001},
                                                 {"buffers thrown away", 0.001},
                                                 {"steps by a plan", 0.001},
                                                 {"plans of several graphs", 0.001},
                                                 {"lines about a changed graph or a stall", 0.001},
                                                 {"questions of ranks that wait for long", 0.001},
                                                 {"jobs that fail as they must", 0.001},
                                                 {"times at which nothing moved but time", 0.001}};

/// Runs the job of `seed`: the orderers of all ranks and process sets, with control collectives and buffers that
/// complete in any admissible order, and applications that submit tensors in any order that their graph allows; graphs
/// and sizes change, tensors are left out, ranks have fewer steps, caches are small. After each transition it checks
/// the invariants of docs/lab/ordering.md: that all issue the same buffers, that each tensor is reduced once, with what
/// every rank has brought, that caches are equal and control collectives matched; and in the end that no rank waits,
/// but where its program must.
void run_ordering_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

}  // namespace stretto
