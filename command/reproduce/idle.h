#pragma once

#include "command/statistics/statistics.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

/// Seconds that a fixed amount of work takes in a process of its own, alone and as one of `ranks` of which the others
/// wait in a full round for it. `work` is a number of passes (fixed_work.h).
Result<double> seconds_alone(std::uint64_t work);
Result<double> seconds_beside_waiting(int ranks, std::uint64_t work);

}  // namespace stretto::command
