#include "stretto/membership/hosts/liveness/turn.h"

#include <utility>

#include "stretto/base/defect.h"
#include "stretto/transport/job_memory.h"

namespace stretto {
namespace {

constexpr Duration kWithoutBeat = std::chrono::seconds(1);  // of the speaker, until its deputy takes over

}  // namespace

bool SpeakersTurn::is_mine(std::atomic<std::uint64_t>& beat, FunctionRef<bool(int)> is_gone, TimePoint now) {
  static_assert(JobMemory::kMaxRanks <= kPlaces + 1);
  std::uint64_t word = beat.load(std::memory_order_acquire);
  if (std::exchange(seen_, word) != word) seen_at_ = now;
  const int speaking = speaks(word);
  int before = 0;  // others that are there, before this one
  for (int place = 0; place < place_; ++place) before += !is_gone(place) && place != speaking ? 1 : 0;
  const bool nobody = speaking < 0 || is_gone(speaking);
  const bool stands = now - seen_at_ > (1 + before) * kWithoutBeat && !defect(Defect::no_deputy);
  if (speaking != place_ && !(nobody && before == 0) && !stands) return false;
  const std::uint64_t own = ((word >> 10) + 1) << 10 | static_cast<std::uint64_t>(place_);
  if (!beat.compare_exchange_strong(word, own, std::memory_order_acq_rel)) return false;
  seen_ = own;
  seen_at_ = now;
  return true;
}

}  // namespace stretto
