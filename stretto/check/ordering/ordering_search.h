#pragma once

#include <cstdint>
#include <string_view>

#include "stretto/check/job_search.h"

namespace stretto {

inline constexpr std::string_view kOrderingReaches[] = {"tensors that a rank did not bring to their buffer",
                                                        "buffers thrown away",
                                                        "steps by a plan",
                                                        "plans of several graphs",
                                                        "lines about a changed graph or a stall",
                                                        "questions of ranks that wait for long",
                                                        "jobs that fail as they must",
                                                        "times at which nothing moved but time"};

/// Runs the job of `seed`: the orderers of all ranks and process sets, with control collectives and buffers that
/// complete in any admissible order, and applications that submit tensors in any order that their graph allows; graphs
/// and sizes change, tensors are left out, ranks have fewer steps, caches are small. After each transition it checks
/// the invariants of docs/lab/ordering.md: that all issue the same buffers, that each tensor is reduced once, with what
/// every rank has brought, that caches are equal and control collectives matched; and in the end that no rank waits,
/// but where its program must.
JobFinding run_ordering_job(std::uint64_t seed, int ranks = 0);

}  // namespace stretto
