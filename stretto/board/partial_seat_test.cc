#include "stretto/board/partial_seat.h"

#include <gtest/gtest.h>

#include "stretto/board/testing/board_ranks.h"

namespace stretto {
namespace {

constexpr Round kRounds[] = {0, 1, 2, 1000, (Round{1} << 47) - 1, Round{1} << 47, (Round{1} << 48) - 2};

TEST(SeatWord, AllZeroIsAnOpenWordOfRoundZero) {
  constexpr SeatWord word;
  EXPECT_EQ(word, SeatWord::open(0, false));
  EXPECT_EQ(word.bits(), 0u);
  EXPECT_EQ(word.first(), -1);
  EXPECT_EQ(word.second(), -1);
  EXPECT_TRUE(word.empty());
  EXPECT_FALSE(word.sealed() || word.arrived() || word.drained() || word.holds(0) || word.holds(-1));
}

TEST(SeatWord, KeepsEachPartApart) {
  for (const Round round : kRounds) {
    for (int flags = 0; flags < 8; ++flags) {
      for (int first = -1; first < SeatWord::kMaxSets; ++first) {
        for (int second = -1; second < SeatWord::kMaxSets; ++second) {
          SeatWord word = SeatWord::open(round, (flags & 1) != 0).with_first(14).with_second(14);
          word = word.with_first(first).with_second(second);
          if ((flags & 2) != 0) word = word.with_arrived();
          if ((flags & 4) != 0) word = word.as_sealed();
          ASSERT_EQ(word.round(), round);
          ASSERT_EQ(word.drained(), (flags & 1) != 0);
          ASSERT_EQ(word.arrived(), (flags & 2) != 0);
          ASSERT_EQ(word.sealed(), (flags & 4) != 0);
          ASSERT_EQ(word.first(), first);
          ASSERT_EQ(word.second(), second);
          ASSERT_EQ(word.empty(), first < 0);
          for (int set = 0; set < SeatWord::kMaxSets; ++set) {
            ASSERT_EQ(word.holds(set), set == first || set == second);
          }
          ASSERT_EQ(SeatWord(word.bits()), word);
          ASSERT_EQ(word.with_drained(), SeatWord(word.bits() | SeatWord::open(0, true).bits()));
        }
      }
    }
  }
}

TEST(SeatWord, SaysWhichRoundsItHasBeenSealedFor) {
  for (const Round round : kRounds) {
    const SeatWord open = SeatWord::open(round, false).with_first(3).with_arrived();
    // A seat with an open word of a round has been sealed for the rounds before.
    EXPECT_FALSE(open.sealed_at_least(round));
    EXPECT_FALSE(open.sealed_at_least(round + 1));
    EXPECT_TRUE(open.as_sealed().sealed_at_least(round));
    EXPECT_FALSE(open.as_sealed().sealed_at_least(round + 1));
    if (round == 0) continue;
    EXPECT_TRUE(open.sealed_at_least(round - 1));
    EXPECT_TRUE(open.as_sealed().sealed_at_least(round - 1));
  }
}

TEST(SeatWord, SealsWhatIsThereOrNothing) {
  for (const Round round : kRounds) {
    const SeatWord open = SeatWord::open(round, false).with_first(2).with_second(7).with_arrived();
    EXPECT_EQ(open.to_seal(round), open.as_sealed());
    for (const bool drained : {false, true}) {
      // The rank has not come since the last round: its deposit for that one is not taken again.
      const SeatWord before = SeatWord::open(round, drained).with_first(2).with_second(7).with_arrived().as_sealed();
      const SeatWord next = before.to_seal(round + 1);
      EXPECT_EQ(next, SeatWord::open(round + 1, drained).as_sealed());
      EXPECT_TRUE(next.empty());
      EXPECT_FALSE(next.arrived());
      EXPECT_EQ(next.drained(), drained);
      EXPECT_TRUE(next.sealed_at_least(round + 1));
    }
  }
}

TEST(SeatWord, ReopensForTheRoundAfterOnceSealed) {
  for (const Round round : kRounds) {
    const SeatWord open = SeatWord::open(round, true).with_first(0).with_second(14).with_arrived();
    EXPECT_EQ(open.reopened(), open);
    EXPECT_EQ(open.as_sealed().reopened(), SeatWord::open(round + 1, true));
    EXPECT_EQ(open.as_sealed().reopened().round(), round + 1);
    EXPECT_FALSE(open.as_sealed().reopened().sealed());
    EXPECT_EQ(SeatWord::open(round, false).as_sealed().reopened(), SeatWord::open(round + 1, false));
  }
}

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

/// Rank 0 counts no round, as one that was frozen before the first; rank 1 goes on to what the lag allows. What the
/// rounds have taken of rank 0 since lies there still, whole, in order.
TEST(PartialSeat, FillsNoSetAgainOfARoundThatMayNotCount) {
  Ranks ranks(small(), 2, 1);
  ranks[0].seat.reuse_before(0);
  const int first = ranks.deposit(0, 10);
  for (Round round = 0; round < 2; ++round) {
    ranks.arrive(1);
    ranks.run(1);
    ASSERT_EQ(ranks[1].board.complete(), round + 1);
    EXPECT_EQ(ranks.result(round), round == 0 ? 10 : 20);
    ranks[1].seat.hand_over(round + 1);
    if (round == 0) ranks.deposit(0, 20);
  }
  const int third = ranks.deposit(0, 30);
  const auto sets_from = [&](Round round) {
    std::vector<int> sets;
    ranks[0].seat.each_set_from(round, [&](int set) { sets.push_back(set); });
    return sets;
  };
  ASSERT_EQ(sets_from(0).size(), 3u);
  const int second = sets_from(0)[1];
  EXPECT_EQ(sets_from(0), (std::vector{first, second, third}));
  EXPECT_EQ(sets_from(1), (std::vector{second, third}));
  EXPECT_EQ(sets_from(2), std::vector{third});
  for (int free = 0; free < 3; ++free) {
    const int set = ranks[0].seat.acquire();
    EXPECT_TRUE(set != first && set != second && set != third) << set;
  }
  ranks[0].seat.reuse_before(1);
  EXPECT_EQ(ranks[0].seat.acquire(), first) << "its result counts";
}

}  // namespace

}  // namespace stretto
