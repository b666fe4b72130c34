#include "stretto/base/idleness.h"

#include <ctime>
#include <utility>

namespace stretto {
namespace {

std::chrono::nanoseconds read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

Idleness::Reading Idleness::read_clocks() {
  return {read_clock(CLOCK_MONOTONIC), read_clock(CLOCK_THREAD_CPUTIME_ID)};
}

bool Idleness::idles() {
  const Reading before = std::exchange(last_, read_());
  return 2 * (last_.ran - before.ran) < last_.wall - before.wall;
}

}  // namespace stretto
