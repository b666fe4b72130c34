#include "stretto/observe/recent_steps.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace stretto {
namespace {

TEST(RecentSteps, AreReadOnceEachRankByItself) {
  RecentSteps recent(3);
  for (std::uint64_t n = 0; n < 3; ++n) recent.add(1, static_cast<double>(n));
  recent.add(2, 7);
  std::vector<float> steps;
  EXPECT_EQ(recent.read(0, 0, steps), 0u);
  EXPECT_TRUE(steps.empty());
  EXPECT_EQ(recent.read(1, 0, steps), 3u);
  EXPECT_EQ(steps, (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(recent.read(1, 3, steps), 3u);
  EXPECT_EQ(steps.size(), 3u);
  EXPECT_EQ(recent.read(1, 5, steps), 5u) << "a step that is still to come";
  EXPECT_EQ(steps.size(), 3u);
  recent.add(1, 3);
  EXPECT_EQ(recent.read(1, 3, steps), 4u);
  EXPECT_EQ(steps, (std::vector<float>{0, 1, 2, 3}));
}

TEST(RecentSteps, KeepTheLatestOfThoseThatNobodyRead) {
  RecentSteps recent(1);
  constexpr std::uint64_t kAll = 3 * RecentSteps::kKept + 5;
  for (std::uint64_t n = 0; n < kAll; ++n) recent.add(0, static_cast<double>(n));
  std::vector<float> steps;
  EXPECT_EQ(recent.read(0, 2, steps), kAll);
  // One fewer than are kept: the rank might be overwriting the oldest.
  ASSERT_EQ(steps.size(), RecentSteps::kKept - 1);
  EXPECT_EQ(steps.front(), static_cast<float>(kAll - RecentSteps::kKept + 1));
  EXPECT_EQ(steps.back(), static_cast<float>(kAll - 1));
}

TEST(RecentSteps, OfAnotherProcess) {
  RecentSteps recent(1);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    recent.add(0, 1);
    _exit(0);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  std::vector<float> steps;
  EXPECT_EQ(recent.read(0, 0, steps), 1u);
  EXPECT_EQ(steps, (std::vector<float>{1}));
}

// A writer that laps the reader: what is read is in order, and none twice.
TEST(RecentSteps, WhileTheRankGoesOn) {
  RecentSteps recent(1);
  constexpr std::uint64_t kAll = 200'000;
  std::thread rank([&] {
    for (std::uint64_t n = 0; n < kAll; ++n) recent.add(0, static_cast<double>(n));
  });
  std::uint64_t next = 0;
  std::vector<float> steps;
  while (next < kAll) next = recent.read(0, next, steps);
  rank.join();
  float last = -1;
  for (const float step : steps) {
    ASSERT_GT(step, last);
    last = step;
  }
  EXPECT_EQ(last, static_cast<float>(kAll - 1));
}

}  // namespace
}  // namespace stretto
