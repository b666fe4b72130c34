#include "stretto/board/seat_word.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace stretto
