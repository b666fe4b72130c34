#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "command/bench/timed_allreduce.h"
#include "command/bench/timed_link.h"

namespace stretto::command {

/// How long an allreduce of float32 takes among ranks on hosts of their own, by its schedule on simulated links of this
/// line, in µs.
double simulated_allreduce_us(int hosts, std::uint64_t bytes, const LinkLine& link);

/// The same for each of `sizes`, as measure_allreduce() gives what was measured, by the line of the links between
/// `timing.hosts`, measured now; and where hosts have several ranks with what these take on a board, by
/// AllreduceCosts::from_environment().
Result<std::vector<Reading>> predict_allreduce(int ranks, const AllreduceTiming& timing,
                                               std::span<const std::uint64_t> sizes);

}  // namespace stretto::command
