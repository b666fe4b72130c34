#pragma once

#include <cstdint>

#include "stretto/base/clock.h"
#include "stretto/base/function_ref.h"

namespace stretto {

/// How long a rank's own step takes with a batch of the job.
using StepTime = FunctionRef<Duration(int rank, std::uint64_t step, std::uint64_t batch)>;

/// Time for all batches if nobody ever waits and nothing is communicated: batches 0, 1, 2, … are taken by whoever is
/// free first (of several the lowest rank). What any algorithm can reach at most with these step times.
/// Asks for each batch once, in order. Requires: ranks ≥ 1.
Duration ideal_makespan(int ranks, std::uint64_t batches, StepTime step_time);

/// Time for all batches if step s has batches s × ranks + rank and every rank waits for the slowest of the step.
Duration synchronous_makespan(int ranks, std::uint64_t batches, StepTime step_time);

}  // namespace stretto
