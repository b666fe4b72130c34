#include "stretto/base/rank_set.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(RankSet, HoldsAnyNumberOfRanks) {
  for (int size : {1, 2, 63, 64, 65, 128, 1000}) {
    RankSet set(size);
    EXPECT_TRUE(set.empty());
    for (int rank = 0; rank < size; rank += 3) set.insert(rank);
    EXPECT_EQ(set.count(), (size + 2) / 3);
    EXPECT_TRUE(set.contains(0));
    EXPECT_EQ(set.nth(set.count() - 1), (set.count() - 1) * 3);
    EXPECT_EQ(set.nth(set.count()), -1);
    set.erase(0);
    EXPECT_FALSE(set.contains(0));
  }
}

TEST(RankSet, UnitesAndTellsWhenFull) {
  RankSet even(70), odd(70);
  for (int rank = 0; rank < 70; ++rank) (rank % 2 == 0 ? even : odd).insert(rank);
  EXPECT_FALSE(even.all());
  EXPECT_TRUE((even | odd).all());
  even |= odd;
  even.clear();
  EXPECT_EQ(even, RankSet(70));
}

}  // namespace
}  // namespace stretto
