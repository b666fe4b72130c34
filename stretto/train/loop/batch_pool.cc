#include "stretto/train/loop/batch_pool.h"

#include <utility>

namespace stretto {

BatchPool::BatchPool(PlanOptions plan, Sharing sharing, int rank, SharedCounter& counter, std::uint64_t base,
                     DispenserPosition start)
    : plan_(std::move(plan)), counter_(counter, base), dispenser_(plan_, sharing, rank, counter_, std::move(start)) {}

std::optional<Batch> BatchPool::next() {
  auto drawn = dispenser_.next();
  while (!drawn && drain_ && !drain_()) {
    dispenser_.look_again();
    drawn = dispenser_.next();
  }
  if (!drawn) return std::nullopt;
  return Batch{drawn->sequence, drawn->epoch, {drawn->samples.begin(), drawn->samples.end()}};
}

void BatchPool::deposited() {
  while (dispenser_.log().deposited < dispenser_.log().handed_out.size()) dispenser_.deposited();
}

}  // namespace stretto
