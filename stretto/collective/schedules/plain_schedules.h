#pragma once

#include <cstdint>

#include "stretto/collective/schedules/allreduce_schedule.h"
#include "stretto/schedule/schedule.h"

namespace stretto {

/// Schedules of the ordinary collectives, for any number P of ranks. They touch their given buffers from the moment a
/// round opens; sends may still be under way when it is complete.

/// Given: `data`, read on `root`, written elsewhere. A binomial tree: ⌈log2 P⌉ steps, P − 1 messages of all the data.
Schedule broadcast_schedule(int rank, int ranks, int root, DataType type, std::uint64_t count);

/// Complete on a rank only when every rank has begun. Dissemination: ⌈log2 P⌉ messages a rank, without a body.
Schedule barrier_schedule(int rank, int ranks);

/// Given: `mine` of `count` elements, and `all` of P × count, which holds rank r's from r × count on in the end.
/// Bruck's algorithm, without its rotation: ⌈log2 P⌉ steps, at most two messages each, (P − 1) × count elements in all.
Schedule allgather_schedule(int rank, int ranks, DataType type, std::uint64_t count);

/// Given: `mine`, only read, and `sum`. See append_allreduce().
Schedule allreduce_schedule(int rank, int ranks, DataType type, std::uint64_t count, ReduceOp op,
                            AllreduceAlgorithm algorithm);

}  // namespace stretto
