#include "command/bench/skew.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stretto::command {
namespace {

using namespace std::chrono_literals;

TEST(IdealWait, IsTheArithmeticOfTheSkew) {
  EXPECT_DOUBLE_EQ(ideal_wait_ms(Policy::full(), 32, 1ms, 0), 15.5);
  EXPECT_DOUBLE_EQ(ideal_wait_ms(Policy::at_least(16), 32, 1ms, 0), 3.75);
  EXPECT_DOUBLE_EQ(ideal_wait_ms(Policy::solo(), 32, 1ms, 0), 0);
  EXPECT_DOUBLE_EQ(ideal_wait_ms(Policy::full(), 4, 2ms, 0), 3);
  double majority = 0;
  for (int initiator = 0; initiator < 32; ++initiator) {
    majority += ideal_wait_ms(Policy::majority(), 32, 1ms, initiator) / 32;
  }
  EXPECT_NEAR(majority, 32.0 * 33 * 31 / 6 / 32 / 32, 1e-12);  // Σ r(r − 1)/2 / P² = (P² − 1)/6P: 5.33
  EXPECT_TRUE(std::isnan(ideal_wait_ms(Policy::deadline(2, 1ms), 4, 1ms, 0)));
}

// The shape, not the times: this runs beside other tests.
TEST(Skew, CountsWhoHadArrived) {
  const auto full = measure_skew({.ranks = 3, .rounds = 4, .bytes = 64, .policy = Policy::full()});
  ASSERT_TRUE(full.ok()) << full.error().message;
  EXPECT_DOUBLE_EQ(full->arrived, 3);
  EXPECT_DOUBLE_EQ(full->fresh, 3);
  EXPECT_DOUBLE_EQ(full->ideal_ms, 1);
  EXPECT_GT(full->mean_ms, 0);

  const auto quorum = measure_skew({.ranks = 4, .rounds = 4, .bytes = 1 << 18, .policy = Policy::at_least(2)});
  ASSERT_TRUE(quorum.ok()) << quorum.error().message;
  EXPECT_GE(quorum->arrived, 2);
  EXPECT_DOUBLE_EQ(quorum->ideal_ms, 0.25);
}

TEST(Skew, CopiesAndMessagesSumTheSame) {
  for (const int seats : {0, 1, 2}) {
    for (const bool copies : {false, true}) {
      const auto full = measure_skew(
          {.ranks = 3, .rounds = 2, .bytes = 1 << 18, .policy = Policy::full(), .seats = seats, .copies = copies});
      ASSERT_TRUE(full.ok()) << full.error().message;
      EXPECT_DOUBLE_EQ(full->arrived, 3);
    }
  }
  EXPECT_EQ(name_of_ours({.seats = 1, .copies = true}), "stretto-messages-plain");
  EXPECT_EQ(name_of_ours({.seats = 4}), "stretto-seats-4");
  EXPECT_EQ(name_of_ours({}), "stretto");
}

TEST(Skew, ADeadlineHasNoIdeal) {
  const auto deadline = measure_skew({.ranks = 2, .rounds = 2, .policy = Policy::deadline(1, 5ms)});
  ASSERT_TRUE(deadline.ok()) << deadline.error().message;
  EXPECT_TRUE(std::isnan(deadline->ideal_ms));
  EXPECT_GE(deadline->arrived, 1);
}

TEST(Skew, OneRank) {
  const auto alone = measure_skew({.ranks = 1, .rounds = 2, .policy = Policy::solo()});
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_DOUBLE_EQ(alone->arrived, 1);
}

}  // namespace
}  // namespace stretto::command
