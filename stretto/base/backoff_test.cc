#include "stretto/base/backoff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace stretto {
namespace {

using Steady = std::chrono::steady_clock;

/// Looks until it says that it is time to sleep.
int looks(Backoff& backoff) {
  int count = 0;
  while (backoff.wait() && count < 10'000'000) ++count;
  return count;
}

/// The most of several tries: a yield that has taken long ends one early.
int most_looks(bool own_core) {
  int most = 0;
  for (int i = 0; i < 50; ++i) {
    Backoff backoff(own_core);
    most = std::max(most, looks(backoff));
  }
  return most;
}

TEST(Backoff, SpinsOnAnOwnCoreAlone) {
  const int yields = most_looks(false);
  EXPECT_GE(yields, 1);
  EXPECT_LE(yields, 20);
  const int with_spins = most_looks(true);
  EXPECT_GT(with_spins, 20) << "spins come before the core is given up";
}

TEST(Backoff, SaysThatItIsTimeToSleepUntilSomethingHappens) {
  for (const bool own_core : {false, true}) {
    Backoff backoff(own_core);
    const int first = looks(backoff);
    EXPECT_LT(first, 1'000'000);
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(backoff.wait());
    backoff.reset();
    // What it spins it spins again, whatever a yield has said.
    if (own_core) {
      EXPECT_TRUE(backoff.wait());
    }
    EXPECT_LE(looks(backoff), most_looks(own_core) + 20);
  }
}

TEST(Backoff, SpinsForAMicrosecondAtLeast) {
  Backoff backoff(true);
  auto least = Steady::duration::max();
  for (int i = 0; i < 50; ++i) {
    backoff.reset();
    const auto begin = Steady::now();
    looks(backoff);
    least = std::min(least, Steady::now() - begin);
  }
  EXPECT_GT(least, std::chrono::microseconds(1));  // and how many looks it takes is bounded above
}

}  // namespace
}  // namespace stretto
