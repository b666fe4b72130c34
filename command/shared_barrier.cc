#include "command/shared_barrier.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace stretto::command {

namespace {

constexpr time_t kPatienceSeconds = 60;

}  // namespace

TimePoint SharedBarrier::wait(std::uint32_t parties, Duration lead) {
  const std::uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties) {
    arrived_.store(0, std::memory_order_relaxed);
    start_ns_.store((SteadyClock().now() + lead).since_start.count(), std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&generation_), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  } else {
    const timespec patience{kPatienceSeconds, 0};
    while (generation_.load(std::memory_order_acquire) == generation) {
      const long slept = ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&generation_), FUTEX_WAIT, generation,
                                   &patience, nullptr, 0);
      if (slept != 0 && errno == ETIMEDOUT) return TimePoint::never();
    }
  }
  return {Duration(start_ns_.load(std::memory_order_relaxed))};
}

}  // namespace stretto::command
