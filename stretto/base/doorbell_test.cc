#include "stretto/base/doorbell.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace stretto {
namespace {

using namespace std::chrono_literals;

/// Whether a thread of this process sleeps: its state stands behind the name in brackets.
bool asleep(pid_t tid) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  const auto end_of_name = stat.rfind(')');
  return end_of_name != std::string::npos && stat.substr(end_of_name + 2, 1) == "S";
}

TEST(Doorbell, ARingBeforeSleepingIsNotLost) {
  DoorbellWords words;
  Doorbell bell(words, false);
  const auto seen = bell.rings();
  bell.ring();
  bell.sleep(seen, Doorbell::Sleeper::helper, 1h);  // returns at once, or CTest's watchdog ends the test
}

TEST(Doorbell, SleepsNoLongerThanAsked) {
  DoorbellWords words;
  Doorbell bell(words, false);
  const SteadyClock clock;
  const auto before = clock.now();
  bell.sleep(bell.rings(), Doorbell::Sleeper::application, 2ms);
  EXPECT_GE(clock.now() - before, 2ms);
}

TEST(Doorbell, EveryRingIsHeard) {
  DoorbellWords there, back;
  Doorbell ping(there, false), pong(back, false);
  constexpr std::uint32_t kRounds = 20000;
  std::thread other([&] {
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      while (ping.rings() <= i) ping.sleep(i, Doorbell::Sleeper::helper, 10s);
      pong.ring();
    }
  });
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    ping.ring();
    while (pong.rings() <= i) pong.sleep(i, Doorbell::Sleeper::application, 10s);
  }
  other.join();
  EXPECT_EQ(pong.rings(), kRounds);
}

TEST(Doorbell, AParkedHelperIsLeftAloneWhileTheApplicationSleeps) {
  DoorbellWords words;
  Doorbell bell(words, false);
  std::atomic<bool> woken{false};
  const auto seen = bell.rings();
  std::atomic<pid_t> tid{0};
  bell.set_answerable(Doorbell::Sleeper::application);
  std::thread helper([&] {
    tid = gettid();
    bell.park(seen, Doorbell::Sleeper::helper, 1h);
    woken = true;
  });
  while (tid == 0 || !asleep(tid)) std::this_thread::yield();
  bell.ring();
  // A thread that a ring wakes is no longer asleep when the ring returns, or has ended by then.
  EXPECT_TRUE(asleep(tid));
  EXPECT_FALSE(woken);
  bell.set_answerable(Doorbell::Sleeper::helper);
  bell.ring();
  helper.join();
  EXPECT_TRUE(woken);
}

}  // namespace
}  // namespace stretto
