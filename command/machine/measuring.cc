#include "command/machine/measuring.h"

#include <algorithm>
#include <array>

#include "stretto/base/doorbell.h"

namespace stretto::command {

namespace {

constexpr double kLongEnough = 0.02;  // to be measured, in seconds

}  // namespace

double timed_work(std::uint64_t passes) {
  std::array<std::uint32_t, 32 * 1024 / sizeof(std::uint32_t)> words{};
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    for (std::uint32_t& word : words) word = word * 1664525u + 1013904223u;
    asm volatile("" : : "r"(words.data()) : "memory");  // each pass has to be made
  }
  return seconds(clock.now() - begin);
}

std::uint64_t calibrate(Duration time) {
  std::uint64_t passes = 64;
  double taken = timed_work(passes);
  while (taken < kLongEnough) {
    passes *= 2;
    taken = timed_work(passes);
  }
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(passes) * seconds(time) / taken));
}

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
