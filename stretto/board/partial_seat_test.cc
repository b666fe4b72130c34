#include "stretto/board/partial_seat.h"

#include <gtest/gtest.h>

#include "stretto/board/testing/board_ranks.h"

namespace stretto {
namespace {

/// What is summed in the order of arrival may have been summed ahead, as far as it came first.
TEST(PartialSeat, KeepsTheFirstDepositAndAddsUpWhatFollowsTheSecond) {
  PartialShape shape = small();
  shape.order = SumOrder::arrival;
  Ranks all(shape, 2, 2);
  const int first = all.deposit(0, 1);
  EXPECT_EQ(all.seat(0), SeatWord::open(0, false).with_first(first));
  const int second = all.deposit(0, 10);
  EXPECT_EQ(all.seat(0), SeatWord::open(0, false).with_first(first).with_second(second));
  all.deposit(0, 100);
  const int sum = all.seat(0).second();
  EXPECT_EQ(all.seat(0).first(), first);
  EXPECT_NE(sum, second);
  EXPECT_EQ(reinterpret_cast<const std::int64_t*>(all.memory().data(0, sum, 0).data())[19], 110);
  EXPECT_EQ(all.memory().set(0, sum).facts.batches, 2u);
  for (int i = 0; i < 50; ++i) all.deposit(0, 1000);
  EXPECT_TRUE(all[0].seat.pending());
  EXPECT_FALSE(all[1].seat.pending());
  all.arrive(0);
  all.arrive(1);
  all.run(1);
  EXPECT_EQ(all[0].board.complete(), 1u);
  EXPECT_EQ(all.result(0), 50'111);
  EXPECT_EQ(all[0].board.header(0).batches, 53u);
  EXPECT_FALSE(all[0].seat.pending());
}

/// As by messages, so that the bits are the same.
TEST(PartialSeat, AddsUpDepositsOneAfterTheOtherInTheFixedOrder) {
  Ranks all(small(), 2, 2);
  for (const int value : {1, 10, 100, 1000}) all.deposit(0, value);
  const auto value_of = [&](int set) {
    return reinterpret_cast<const std::int64_t*>(all.memory().data(0, set, 0).data())[19];
  };
  EXPECT_EQ(value_of(all.seat(0).first()), 111);
  EXPECT_EQ(value_of(all.seat(0).second()), 1000);
  EXPECT_EQ(all.memory().set(0, all.seat(0).first()).facts.batches, 3u);
}

TEST(PartialSeat, GivesOutNoSetThatARoundStillSums) {
  Ranks all(small(), 2, 1, true);
  const int first = all.deposit(0, 1);
  const int second = all.deposit(0, 2);
  all.arrive(0);
  while (!all.seat(0).sealed()) all[1].board.step(true);
  for (int i = 0; i < 3; ++i) {
    const int next = all.deposit(0, 100);
    EXPECT_NE(next, first);
    EXPECT_NE(next, second);
    EXPECT_EQ(all.seat(0).round(), 1u);
  }
  while (all[1].board.complete() == 0) all[1].board.step(true);
  EXPECT_EQ(all.result(0), 3);
}

}  // namespace
}  // namespace stretto
