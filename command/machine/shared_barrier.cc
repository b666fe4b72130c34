#include "command/machine/shared_barrier.h"

#include "stretto/base/futex.h"

namespace stretto::command {

namespace {

constexpr Duration kTimeout = std::chrono::seconds(60);
constexpr std::uint32_t kAllBits = ~std::uint32_t{0};

}  // namespace

TimePoint SharedBarrier::wait(std::uint32_t parties, Duration lead) {
  const SteadyClock clock;
  const std::uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties) {
    arrived_.store(0, std::memory_order_relaxed);
    start_ns_.store((clock.now() + lead).since_start.count(), std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    futex_wake(generation_, kAllBits, true);
  } else {
    const TimePoint give_up = clock.now() + kTimeout;
    while (generation_.load(std::memory_order_acquire) == generation) {
      const TimePoint now = clock.now();
      if (now >= give_up) return TimePoint::never();
      futex_sleep({&generation_, generation}, kAllBits, give_up - now, true);
    }
  }
  return {Duration(start_ns_.load(std::memory_order_relaxed))};
}

}  // namespace stretto::command
