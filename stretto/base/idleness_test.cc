#include "stretto/base/idleness.h"

#include <gtest/gtest.h>

#include <ctime>
#include <thread>

namespace stretto {
namespace {

using namespace std::chrono_literals;

/// Runs until this thread has had the core for that long, however many others want it.
void compute(std::chrono::nanoseconds duration) {
  const auto ran = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto end = ran() + duration;
  while (ran() < end) {
  }
}

TEST(Idleness, ASleeperIdles) {
  Idleness idleness;
  std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(idleness.idles());
}

TEST(Idleness, WhoComputesDoesNot) {
  // On a loaded machine a thread that would run gets less than half of the time now and then, but not every time.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    Idleness idleness;
    compute(5ms);
    if (!idleness.idles()) return;
  }
  FAIL() << "computing counts as idling";
}

TEST(Idleness, CountsFromTheLastCallOn) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    Idleness idleness;
    std::this_thread::sleep_for(10ms);
    if (!idleness.idles()) continue;
    compute(2ms);
    if (!idleness.idles()) return;
  }
  FAIL() << "the time before the last call counts";
}

}  // namespace
}  // namespace stretto
