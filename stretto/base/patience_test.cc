#include "stretto/base/patience.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace stretto {
namespace {

using Clock = std::chrono::steady_clock;

/// Looks until it says that it is time to sleep.
int looks(Patience& patience) {
  int count = 0;
  while (patience.wait() && count < 10'000'000) ++count;
  return count;
}

/// The most of several tries: a yield that has taken long ends one early.
int most_looks(bool own_core) {
  int most = 0;
  for (int i = 0; i < 50; ++i) {
    Patience patience(own_core);
    most = std::max(most, looks(patience));
  }
  return most;
}

TEST(Patience, SpinsOnAnOwnCoreAlone) {
  const int yields = most_looks(false);
  EXPECT_GE(yields, 1);
  EXPECT_LE(yields, 20);
  const int with_spins = most_looks(true);
  EXPECT_GT(with_spins, 20) << "spins come before the core is given up";
}

TEST(Patience, SaysThatItIsTimeToSleepUntilSomethingHappens) {
  for (const bool own_core : {false, true}) {
    Patience patience(own_core);
    const int first = looks(patience);
    EXPECT_LT(first, 1'000'000);
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(patience.wait());
    patience.reset();
    // What it spins it spins again, whatever a yield has said.
    if (own_core) {
      EXPECT_TRUE(patience.wait());
    }
    EXPECT_LE(looks(patience), most_looks(own_core) + 20);
  }
}

TEST(Patience, SpinsForMicroseconds) {
  Patience patience(true);
  auto least = Clock::duration::max();
  for (int i = 0; i < 50; ++i) {
    patience.reset();
    const auto begin = Clock::now();
    looks(patience);
    least = std::min(least, Clock::now() - begin);
  }
  EXPECT_GT(least, std::chrono::microseconds(1));
  EXPECT_LT(least, std::chrono::milliseconds(20));
}

}  // namespace
}  // namespace stretto
