#include "stretto/base/doorbell.h"

#include <gtest/gtest.h>

#include <thread>

namespace stretto {
namespace {

using namespace std::chrono_literals;

TEST(Doorbell, ARingBeforeSleepingIsNotLost) {
  DoorbellWords words;
  Doorbell bell(words, false);
  const auto seen = bell.rings();
  bell.ring();
  const SteadyClock clock;
  const auto before = clock.now();
  bell.sleep(seen, Doorbell::Sleeper::helper, 10s);
  EXPECT_LT(clock.now() - before, 5s);
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
  std::thread helper([&] {
    bell.park(seen, Doorbell::Sleeper::helper, 60s);
    woken = true;
  });
  std::thread ringer([&] {
    std::this_thread::sleep_for(20ms);  // so that both sleep; correct without, too
    bell.set_answerable(Doorbell::Sleeper::application);
    bell.ring();
    EXPECT_FALSE(woken);
    bell.set_answerable(Doorbell::Sleeper::helper);
    bell.ring();
  });
  ringer.join();
  helper.join();
  EXPECT_TRUE(woken);
}

}  // namespace
}  // namespace stretto
