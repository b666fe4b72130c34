#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "stretto/collective/groups/groups.h"
#include "stretto/collective/protocol/policy.h"
#include "stretto/collective/schedules/allreduce_schedule.h"
#include "stretto/kernel/bucket.h"
#include "stretto/schedule/schedule.h"

namespace stretto {

/// Buckets from here on are reduced in a way that is optimal in bandwidth rather than latency.
inline constexpr std::uint64_t kLargeBucketBytes = 64 * 1024;

/// The way in which ranks that have not come learn that a round has started.
struct Activation {
  enum class How {
    flood,  ///< any rank may start it, several at once: over the edges of a hypercube
    tree,   ///< `root` starts it: down a binomial tree
    none,   ///< every rank joins when it comes, and the reduction itself waits for all
  };
  How how = How::flood;
  int root = 0;

  static Activation flood() { return {}; }
  static Activation tree(int root) { return {How::tree, root}; }
  static Activation none() { return {How::none, 0}; }
  friend auto operator<=>(const Activation&, const Activation&) = default;
};

/// The activation of a round of that policy: any rank starts it under solo, the rank drawn under majority, the counter
/// under quorum and deadline.
Activation activation_of(const Policy& policy);

/// How a bucket is reduced in a partial allreduce.
AllreduceAlgorithm algorithm_for(const BucketSpec& bucket, SumOrder order);

/// The hooks that a partial allreduce calls (RoundOwner::call).
inline constexpr std::uint32_t kJoinHook = 0;        ///< take the pending deposit; buffers are bound from here on
inline constexpr std::uint32_t kFirstReadyHook = 1;  ///< kFirstReadyHook + i: when it ends, bucket i is reduced

/// The buffers of its schedule: a rank's contribution to a bucket, and the bucket's sum.
constexpr BufferId contribution_buffer(std::size_t bucket) {
  return static_cast<BufferId>(bucket);
}
constexpr BufferId sum_buffer(std::size_t bucket, std::size_t num_buckets) {
  return static_cast<BufferId>(num_buckets + bucket);
}

/// One rank's schedule of a round of the partial allreduce (eager-SGD section 4, Fig. 6): activation, join, reduction.
///
/// Activation: `internal` is triggered by the owner, or a message comes (`activate.from.PEER`); whichever is first
/// fires `activated`, which tells all neighbours, once. In a flood, neighbours are the ranks at distance 2^k in the
/// hypercube, as far as there are ranks: every rank reaches every other in at most log2 P + 1 hops, from any number of
/// initiators. In a tree they are the rank's children: P − 1 messages in all. Without activation there is none of this:
/// the round begins with `join`. Then `join` calls kJoinHook, and bucket after bucket `ready.i` calls kFirstReadyHook +
/// i and x.i is reduced into sum.i. `complete` ends the round. Headers travel with the first bucket: header(sum.0) =
/// all ranks' header(x.0). Buffers: x.i is contribution_buffer(i), sum.i is sum_buffer(i).
///
/// Messages a rank: log2 P for a flood, 1 for a tree, then those of algorithm_for() each bucket.
/// Throws UsageError without buckets.
Schedule partial_allreduce_schedule(int rank, int ranks, std::span<const BucketSpec> buckets, ReduceOp op,
                                    SumOrder order, Activation activation = Activation::flood());

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
