#include "stretto/membership/job.h"

namespace stretto {

int RankContext::borrow_counter() {
  for (int index = kNumCounters / 2; index < kNumCounters; ++index) {
    if ((borrowed_ >> index & 1u) != 0) continue;
    borrowed_ |= 1u << index;
    return index;
  }
  throw UsageError(text("more than ", kNumCounters / 2, " shared counters borrowed at a time, a pool of batches each"));
}

}  // namespace stretto
