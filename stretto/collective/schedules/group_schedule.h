#pragma once

#include <cstdint>
#include <span>
#include <vector>

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
/// `ranks`, this one among them: partial_allreduce_schedule() among these, in the fixed order and without activation.
Schedule group_round_schedule(int rank, std::span<const int> members, int ranks, std::span<const BucketSpec> buckets);

/// Whom a rank tells that a group round has started, so that all `ranks` hear of it: over the edges of a hypercube, or,
/// where the counter alone starts rounds, of a quorum, down its tree.
std::vector<int> activation_neighbours(int rank, int ranks, int quorum);

}  // namespace stretto
