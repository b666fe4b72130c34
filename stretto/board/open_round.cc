#include "stretto/board/open_round.h"

#include <algorithm>

#include "stretto/base/defect.h"

namespace stretto {

void OpenRound::count_done(std::size_t bucket, std::uint64_t pieces) {
  memory.words().done.fetch_add(pieces, std::memory_order_acq_rel);
  if (!memory.several_boards()) return;
  const std::uint64_t done = memory.bucket_done(bucket).fetch_add(pieces, std::memory_order_acq_rel) + pieces;
  const bool all = done == (round + 1) * memory.pieces_of(bucket);
  if (all && rank != 0 && !defect(Defect::sum_without_ring)) ring(0);
}

int OpenRound::wake_helpers() {
  return memory.words().sleepers.wake(ranks, std::max(1, memory.shape().helpers), ring);
}

}  // namespace stretto
