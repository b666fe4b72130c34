#include "stretto/base/idleness.h"

#include <gtest/gtest.h>

#include <thread>

#include "stretto/base/cores.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

Idleness::Reading now{};
Idleness::Reading read_now() {
  return now;
}

/// A thread has run for some part of the time that has passed.
void pass(std::chrono::nanoseconds wall, std::chrono::nanoseconds ran) {
  now.wall += wall;
  now.ran += ran;
}

TEST(Idleness, IsToHaveRunForLessThanHalfOfTheTime) {
  Idleness idleness(read_now);
  pass(20ms, 0ms);
  EXPECT_TRUE(idleness.idles());
  pass(20ms, 10ms - 1ns);
  EXPECT_TRUE(idleness.idles());
  pass(20ms, 10ms);
  EXPECT_FALSE(idleness.idles());
  pass(20ms, 20ms);
  EXPECT_FALSE(idleness.idles());
}

TEST(Idleness, CountsFromTheLastCallOn) {
  Idleness idleness(read_now);
  pass(1h, 0ms);
  EXPECT_TRUE(idleness.idles());
  pass(2ms, 2ms);
  EXPECT_FALSE(idleness.idles()) << "the hour before the last call counts";
  pass(1h, 0ms);
  idleness.begin();
  pass(2ms, 2ms);
  EXPECT_FALSE(idleness.idles()) << "the hour before begin() counts";
}

// Each waits until it has seen what it wants, or the watchdog ends the test.
TEST(Idleness, OfTheCallingThread) {
  Idleness idleness;
  do {
    for (const Duration until = thread_time() + 1ms; thread_time() < until;) {
    }
  } while (idleness.idles());
  do {
    std::this_thread::sleep_for(1ms);
  } while (!idleness.idles());
}

}  // namespace
}  // namespace stretto
