#pragma once

#include <cstdint>

#include "stretto/base/clock.h"
#include "stretto/base/function_ref.h"

namespace stretto {

/// How long a rank's own step takes with a batch of the job.
using StepTime = FunctionRef<Duration(int rank, std::uint64_t step, std::uint64_t batch)>;

/// Time for all batches if no rank ever waits and nothing is communicated: batches 0, 1, 2, … are each taken by the
/// rank that is free first (of several the lowest). With these step times no algorithm can be faster. Asks for each
/// batch once, in order. Requires: ranks ≥ 1.
Duration ideal_makespan(int ranks, std::uint64_t batches, StepTime step_time);

/// Time for all batches if step s has batches s × ranks + rank and every rank waits for the slowest of the step.
Duration synchronous_makespan(int ranks, std::uint64_t batches, StepTime step_time);

}  // namespace stretto
