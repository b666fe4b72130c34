#pragma once

#include <cstdint>

#include "stretto/base/clock.h"
#include "stretto/base/function_ref.h"

namespace stretto {

/// How long a rank's own step takes with a batch of the job.
using StepTime = FunctionRef<Duration(int rank, std::uint64_t step, std::uint64_t batch)>;

/// Time for all batches if no rank ever waits and nothing is communicated: batches 0, 1, 2, … are each taken by the
/// rank that is free first (of several the lowest): an estimate, and no bound, for the last batches may go to ranks
/// that are slow with them. Asks for each batch once, in order. Requires: ranks ≥ 1.
Duration ideal_makespan(int ranks, std::uint64_t batches, StepTime step_time);

/// The shortest time in which so many batches can be computed where a step takes as long whichever batch it has, each
/// rank making its steps in their order: the moment when so many of all ranks' steps are over if none ever waits. No
/// algorithm is faster. O(log ranks) a batch. Requires: ranks ≥ 1.
Duration shortest_makespan(int ranks, std::uint64_t batches,
                           FunctionRef<Duration(int rank, std::uint64_t step)> step_time);

/// Time for all batches if step s has batches s × ranks + rank and every rank waits for the slowest of the step.
Duration synchronous_makespan(int ranks, std::uint64_t batches, StepTime step_time);

}  // namespace stretto
