#include "stretto/membership/shm_rank_context.h"

#include <utility>

#include "stretto/membership/forked_child.h"
#include "stretto/membership/rank_end.h"

namespace stretto {

static_assert(RankContext::kNumCounters <= JobMemory::kNumCounters);

ShmRankContext::ShmRankContext(JobMemory& memory, int rank, std::function<void(const RankMessage&)> say)
    : memory_(memory), transport_(memory, rank), say_(std::move(say)) {
  keep_from_forked_children(memory.mapped());
  for (int i = 0; i < kNumCounters; ++i) counters_.emplace_back(memory.counter(i));
}

void ShmRankContext::report(std::string text) {
  if (std::exchange(reported_, true)) throw UsageError(second_report(rank()));
  say_({RankMessage::Kind::report, std::move(text)});
}

void ShmRankContext::complain(const Error& error) {
  say_(message_of(error, rank()));
}

}  // namespace stretto
