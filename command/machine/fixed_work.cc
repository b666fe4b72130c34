#include "command/machine/fixed_work.h"

#include <algorithm>
#include <array>

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

}  // namespace stretto::command
