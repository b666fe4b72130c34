#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "stretto/check/job_search.h"
#include "stretto/check/over.h"

namespace stretto {

inline constexpr std::string_view kGroupReaches[] = {"stale sums",
                                                     "sums passed over",
                                                     "jumps",
                                                     "unequal groups",
                                                     "quorums",
                                                     "full rounds",
                                                     "own sums",
                                                     "rounds on a board",
                                                     "rounds on several boards",
                                                     "steps put on a mean",
                                                     "rounds on several hosts"};

/// Runs the job of `seed` on the real engine and the real GroupAllreduce: ranks that publish models in a prime field,
/// some of them slow, over links some of which are slow or on a board, with groups of any size. Checks G1 to G11
/// (docs/groups.md). `over`: how they meet; nothing: drawn.
JobFinding run_group_job(std::uint64_t seed, int ranks = 0, std::optional<Over> over = {});

}  // namespace stretto
