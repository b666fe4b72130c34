#include "stretto/train/job/progress_page.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace stretto {
namespace {

TEST(ProgressPage, KeepsTheFarthest) {
  const SharedProgressPage page;
  page->applied(10, 3);
  page->applied(8, 4);
  EXPECT_EQ(page->batches(), 10u);
  EXPECT_EQ(page->rounds(), 4u);
}

TEST(ProgressPage, StartsOnce) {
  const SharedProgressPage page;
  EXPECT_FALSE(page->start().has_value());
  page->started(TimePoint{Duration(101)});
  page->started(TimePoint{Duration(501)});
  EXPECT_EQ(page->start(), TimePoint{Duration(101)});
}

TEST(ProgressPage, HandsLinesOverOnceAndLosesWhatNobodyReads) {
  const SharedProgressPage page;
  EXPECT_EQ(page->take_line(), std::nullopt);
  page->tell("one");
  page->tell(std::string(2000, 'x'));
  EXPECT_EQ(page->take_line(), "one");
  EXPECT_EQ(page->take_line(), std::string(495, 'x')) << "cut to what there is room for";
  EXPECT_EQ(page->take_line(), std::nullopt);
  for (int i = 0; i < 100; ++i) page->tell("again");
  int lines = 0;
  while (page->take_line()) ++lines;
  EXPECT_EQ(lines, 8);
}

TEST(ProgressPage, OneRankTellsAboutARound) {
  const SharedProgressPage page;
  EXPECT_TRUE(page->claim(0));
  EXPECT_FALSE(page->claim(0));
  EXPECT_TRUE(page->claim(7));
  EXPECT_FALSE(page->claim(3));
}

TEST(ProgressPage, WakesThoseThatSleepWhenTheJobStops) {
  ::alarm(60);  // the watchdog
  const SteadyClock clock;
  const SharedProgressPage page;
  const pid_t child = ::fork();
  if (child == 0) {
    page->sleep_until(clock.now() + std::chrono::hours(1));
    ::_exit(page->stopped() ? 0 : 1);
  }
  EXPECT_FALSE(page->stopped());
  const TimePoint soon = clock.now() + std::chrono::milliseconds(2);
  page->sleep_until(soon);
  EXPECT_GE(clock.now(), soon) << "where nothing stops, the whole time";
  page->stop();
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  page->sleep_until(clock.now() + std::chrono::hours(1));
  ::alarm(0);
}

TEST(ProgressPage, IsSeenByTheParent) {
  const SharedProgressPage page;
  const pid_t child = ::fork();
  if (child == 0) {
    page->applied(5, 2);
    page->tell("from the child");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(page->batches(), 5u);
  EXPECT_EQ(page->take_line(), "from the child");
}

}  // namespace
}  // namespace stretto
