#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stretto/collective/schedules/part.h"
#include "stretto/kernel/bucket.h"
#include "stretto/schedule/schedule.h"

namespace stretto {

/// The hooks that a line's round calls (RoundOwner::call).
struct LineHook {
  enum class Kind : std::uint32_t {
    begin,         ///< means may be received once it is finished: they have memory
    way,           ///< `node` is sent something once it is finished
    contribution,  ///< that of `node` to this node's slice is there
    mean,          ///< that of slice `node` is there
    sent,          ///< the contribution to `node`, or the mean, has left
  };
  Kind kind;
  int node = 0;

  std::uint32_t encode() const { return static_cast<std::uint32_t>(kind) | static_cast<std::uint32_t>(node) << 3; }
  static LineHook decode(std::uint32_t hook) { return {static_cast<Kind>(hook & 7), static_cast<int>(hook >> 3)}; }
};

/// The buffers of its schedule, of a line of `nodes` and a model of `buckets`. Slice i, of node i, is the i-th part of
/// each bucket.
class LineBuffers {
 public:
  LineBuffers(std::size_t buckets, int nodes) : buckets_(buckets), nodes_(static_cast<std::size_t>(nodes)) {}
  /// This node's model, given; empty where it contributes none. Its header goes with bucket 0 to every node.
  BufferId model(std::size_t bucket) const { return static_cast<BufferId>(bucket); }
  /// The mean of a slice, given for a result; empty where nobody has contributed to it.
  BufferId mean_of(int slice, std::size_t bucket) const { return at(1, slice, bucket); }
  /// The part of this node's slice that another one has contributed; empty as there.
  BufferId from(int node, std::size_t bucket) const { return at(1 + nodes_, node, bucket); }

 private:
  BufferId at(std::size_t block, int node, std::size_t bucket) const {
    return static_cast<BufferId>((block + static_cast<std::size_t>(node)) * buckets_ + bucket);
  }
  std::size_t buckets_;
  std::size_t nodes_;
};

/// One rank's schedule of a round of a line of an elastic grid (Peng, UCB/EECS-2018-77, section 2.1): a reduction and
/// an allgather of slices whose owner says when it has enough. `members`: the line's ranks, ascending, this one among
/// them, of a job of `ranks`; the schedule's peers and its buffers have their numbers in the line.
///
/// Each node sends slice i of its model to node i, and calls a hook for each contribution to its own slice. Once the
/// owner has averaged those that are there into mean_of() it triggers `average`, which sends the mean, with its header,
/// to all; later ones are not looked at. Each mean that comes calls a hook. To each node there is a way, without which
/// nothing is sent to it, and what has left calls a hook. The owner ends the round by `complete`, at any time.
///
/// Messages a rank: 2(p − 1) each bucket; bytes each way: 2(p − 1)/p of the model.
Schedule line_round_schedule(int rank, std::span<const int> members, int ranks, std::span<const BucketSpec> buckets);

}  // namespace stretto
