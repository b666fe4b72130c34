#include "command/cli/progress.h"

#include <gtest/gtest.h>

namespace stretto::command {
namespace {

TEST(Progress, LineShowsBarRateAndRemainingTime) {
  EXPECT_EQ(progress_line("sync", "batches", 25, 100, 0.5, 8), "sync  [==      ]  25/100 batches  50.0/s  0:02 left");
  EXPECT_EQ(progress_line("sync", "batches", 25, 10000, 0.5, 0), "sync  25/10000 batches  50.0/s  3:20 left");
  EXPECT_EQ(progress_line("sync", "batches", 100, 100, 4, 4), "sync  [====]  100/100 batches  25.0/s");
}

TEST(Progress, LineShowsAnExpectedRateBesideTheMeasuredOne) {
  EXPECT_EQ(progress_line("sync", "batches", 25, 100, 0.5, 0, 62.5),
            "sync  25/100 batches  50.0/s, predicted 62.5/s  0:02 left");
}

TEST(Progress, NothingIsKnownAtTheStart) {
  EXPECT_EQ(progress_line("sync", "batches", 0, 100, 0, 4), "sync  [    ]  0/100 batches  0/s");
  EXPECT_EQ(progress_line("check", "rounds", 30, 0, 2, 4), "check  30 rounds  15.0/s");
}

}  // namespace
}  // namespace stretto::command
