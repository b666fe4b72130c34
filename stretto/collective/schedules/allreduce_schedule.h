#pragma once

#include "stretto/schedule/builder.h"

namespace stretto {

/// P ranks, n bytes. The first two sum in the same fixed order, so that they give the same bits (docs/protocol.md,
/// Bits): ranks 2i and 2i+1 are folded for i < P − 2^⌊log2 P⌋, then blocks at distances 1, 2, 4, … are added, always
/// reduce(lower ranks, higher ranks).
enum class AllreduceAlgorithm {
  recursive_doubling,  ///< log2 P steps of n bytes: for small buckets
  /// 2 log2 P steps, 2n(P−1)/P bytes: optimal in bandwidth; twice n more for folded ranks. In pieces, of which one
  /// travels while another is summed.
  halving_doubling,
  direct,  ///< 2(P−1) messages, 2n(P−1)/P bytes; each slice is summed at its owner in the order of arrival
};

const char* name_of(AllreduceAlgorithm algorithm);

struct AllreduceSpec {
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::recursive_doubling;
  BufferId contribution = kNoBuffer;  ///< only read; may be empty in a round
  BufferId result = kNoBuffer;        ///< empty at first; ends as the sum everywhere, empty if all contributions were
  ReduceOp op = ReduceOp::sum;
  int first_channel = 0;
  /// The header of the contribution is reduced, too: in the end that of the result holds all ranks', everywhere.
  bool headers = false;
  /// The result may lie in the contribution's memory: it is written when that has left.
  bool in_place = false;
  /// Of a piece, about: so long that a message takes no time to begin beside it. No more than 64 pieces.
  std::uint64_t piece_bytes = 512 << 10;
};

struct AllreducePlan {
  OpId done = kNoOp;     ///< the result is complete; sends from it and from the contribution may still be under way
  int num_channels = 0;  ///< used from first_channel on; the same on all ranks
};

/// Adds an allreduce to a schedule that is being built, the same on every rank. Neither the contribution nor the result
/// is touched before `after` has finished (kNoOp: from the start); data that peers send earlier lands in scratch.
/// Throws UsageError when contribution and result differ in type or count, or are the same buffer.
AllreducePlan append_allreduce(ScheduleBuilder& builder, const AllreduceSpec& spec, OpId after);

}  // namespace stretto
