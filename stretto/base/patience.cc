#include "stretto/base/patience.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace stretto {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kSpin = microseconds(4);
constexpr std::uint32_t kYields = 20;
constexpr microseconds kLongYield(500);  // somebody else computed, with more than our own ranks' small pieces
constexpr std::uint32_t kCrowdedFor = 200;

/// Pauses that take kSpin on this processor: measured, since they differ twentyfold between makes. Once a process.
std::uint32_t measured_spins() {
  constexpr std::uint32_t kSample = 200;
  auto shortest = nanoseconds::max();
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    for (std::uint32_t k = 0; k < kSample; ++k) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    shortest = std::min(shortest, std::chrono::duration_cast<nanoseconds>(Clock::now() - begin));
  }
  const double one = std::max(0.5, static_cast<double>(shortest.count()) / kSample);
  return static_cast<std::uint32_t>(static_cast<double>(kSpin.count()) / one);
}

}  // namespace

Patience::Patience(bool own_core) : spins_([own_core] {
      static const std::uint32_t kSpins = measured_spins();
      return own_core ? kSpins : 0;
    }()) {}

bool Patience::give_up_core() {
  if (looks_ >= spins_ + kYields) return false;
  if (crowded_ > 0) {
    --crowded_;
    return false;
  }
  ++looks_;
  const auto before = Clock::now();
  std::this_thread::yield();
  if (Clock::now() - before > kLongYield) crowded_ = kCrowdedFor;
  return true;
}

}  // namespace stretto
