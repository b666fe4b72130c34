#include "stretto/base/backoff.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace stretto {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kSpin = microseconds(4);
constexpr std::uint32_t kYields = 20;
constexpr microseconds kLongYield(500);  // another thread computed, for longer than a rank of ours sums a piece
constexpr std::uint32_t kCrowdedFor = 200;
constexpr nanoseconds kSwitch(800);  // a yield that finds no other thread takes less than half of it
constexpr int kSharedFor = 16;
constexpr int kNotAgainFor = 200;

/// Pauses that take kSpin on this processor: measured, since they differ twentyfold between makes. Once a process.
std::uint32_t measured_spins() {
  constexpr std::uint32_t kSample = 200;
  auto shortest = nanoseconds::max();
  for (int i = 0; i < 5; ++i) {
    const auto begin = Steady::now();
    for (std::uint32_t k = 0; k < kSample; ++k) pause_core();
    shortest = std::min(shortest, std::chrono::duration_cast<nanoseconds>(Steady::now() - begin));
  }
  const double one = std::max(0.5, static_cast<double>(shortest.count()) / kSample);
  return static_cast<std::uint32_t>(static_cast<double>(kSpin.count()) / one);
}

}  // namespace

Backoff::Backoff(bool own_core, int place)
    : spins_([own_core] {
        static const std::uint32_t kSpins = measured_spins();
        return own_core ? kSpins : 0;
      }()),
      place_(place) {}

// Moved and at once set free again: it is a hint, and the scheduler may think better of it.
void Backoff::move_to_place() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  const int cores = CPU_COUNT(&allowed);
  int skip = cores > 0 ? place_ % cores : 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || skip-- > 0) continue;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(core, &only);
    if (sched_setaffinity(0, sizeof only, &only) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
    return;
  }
}

bool Backoff::give_up_core() {
  if (looks_ >= spins_ + kYields) return false;
  if (crowded_ > 0) {
    --crowded_;
    return false;
  }
  ++looks_;
  const auto before = Steady::now();
  std::this_thread::yield();
  const auto taken = Steady::now() - before;
  if (taken > kLongYield) crowded_ = kCrowdedFor;
  if (spins_ > 0 && taken > kSwitch && ++shared_ == kSharedFor) {
    shared_ = -kNotAgainFor;
    move_to_place();
  }
  return true;
}

}  // namespace stretto
