#pragma once

#include <cstdint>
#include <span>

#include "stretto/collective/groups/groups.h"
#include "stretto/collective/schedules/allreduce_schedule.h"
#include "stretto/kernel/bucket.h"
#include "stretto/schedule/schedule.h"

namespace stretto {

/// One rank's schedule of the reduction of a round in groups: an allreduce among the members of its group. Given:
/// `mine`, only read, and `sum`, of the group. It exchanges messages with the members alone, as many as an allreduce of
/// so many ranks does (append_allreduce()); the sum has the bits of one whose ranks are the members in ascending order.
/// A group of one copies.
Schedule group_allreduce_schedule(int rank, const Groups& groups, Round round, DataType type, std::uint64_t count,
                                  ReduceOp op, AllreduceAlgorithm algorithm);

/// One rank's schedule of a round of the group allreduce (GroupAllreduce) among `members`, ascending ranks of a job of
/// `ranks`, this one among them: `join` calls kJoinHook, then bucket after bucket x.i is reduced into sum.i, in the
/// order of partial_allreduce_schedule() for SumOrder::fixed, headers with the first. `complete` ends the round.
/// Buffers: x.i is contribution_buffer(i), sum.i is sum_buffer(i). Throws UsageError without buckets.
Schedule group_round_schedule(int rank, std::span<const int> members, int ranks, std::span<const BucketSpec> buckets);

}  // namespace stretto
