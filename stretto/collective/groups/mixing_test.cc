#include "stretto/collective/groups/mixing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "stretto/collective/testing/sizes.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

int mixing(int ranks, int group_size) {
  return mixing_number(Groups(ranks, group_size)).value_or(-1);
}

TEST(MixingNumber, IsTheCycleForPowersOfTwo) {
  EXPECT_EQ(mixing(64, 8), 2);
  EXPECT_EQ(mixing(8, 4), 2);
  EXPECT_EQ(mixing(32, 4), 3);
  EXPECT_EQ(mixing(64, 2), 6);
  EXPECT_EQ(mixing(27, 3), 3);
  EXPECT_EQ(mixing(128, 16), 2) << "more ranks than a word has bits";
  EXPECT_EQ(mixing(1, 1), 0) << "nothing is to be said";
}

/// All pairs 2 ≤ S ≤ P ≤ 64, by what M is above L.
TEST(MixingNumber, IsTheCycleNearlyAlways) {
  std::map<int, int> all, from_the_root_on;
  std::vector<std::tuple<int, int, int>> far;
  int others_far = 0;
  for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
    for (int size = 2; size <= ranks; ++size) {
      const Groups groups(ranks, size);
      const int number = mixing_number(groups).value_or(1000);
      const int above = number - groups.cycle();
      ++all[std::min(above, 3)];
      if (size * size >= ranks) {
        ++from_the_root_on[std::min(above, 3)];
        if (above > 1) far.emplace_back(ranks, size, number);
      }
      if (above >= 3 && (size != 2 || (ranks & (ranks - 1)) == 0)) ++others_far;
    }
  }
  EXPECT_THAT(all, ElementsAre(Pair(0, 1786), Pair(1, 162), Pair(2, 27), Pair(3, 41)));
  EXPECT_EQ(others_far, 0) << "with a group size above 2, or a power of two of ranks";
  EXPECT_THAT(from_the_root_on, ElementsAre(Pair(0, 1743), Pair(1, 27), Pair(3, 1)));
  EXPECT_THAT(far, ElementsAre(std::tuple(3, 2, 5)));
}

TEST(MixingNumber, OfTheDefaultSizeIsThreeAtMost) {
  for (int ranks = 2; ranks <= 100; ++ranks) EXPECT_LE(mixing(ranks, default_group_size(ranks)), 3) << ranks;
}

TEST(MixingNumber, DoesNotExistWhereGroupsAreFixed) {
  EXPECT_EQ(mixing_number(Groups(8, 4, GroupOrder::fixed)), std::nullopt);
  EXPECT_EQ(mixing_number(Groups(7, 6, GroupOrder::fixed)), std::nullopt);
  EXPECT_EQ(mixing_number(Groups(8, 8, GroupOrder::fixed)), 1);
}

TEST(ConsensusDistance, OfPowersOfTwoEndsAtNothing) {
  // A group of 4 of 8 has 1/4 each, 1/8 off the mean, and so has the other one; at first it was √7/8.
  EXPECT_THAT(consensus_distances(Groups(8, 4), 3), ElementsAre(1, ::testing::DoubleEq(1 / std::sqrt(7.0)), 0, 0));
  EXPECT_THAT(consensus_distances(Groups(64, 8), 3), ElementsAre(1, ::testing::DoubleEq(1 / 3.0), 0, 0));
}

TEST(ConsensusDistance, IsThatOfTheWorstRankAndRound) {
  // Rank 1 is alone in rounds 1 and 2: {0, 2} {1}, twice. Then {1, 2}: values 0, 1/2, 1/2, and so on, half at a time.
  const auto distances = consensus_distances(Groups(3, 2), 6);
  const std::vector<double> expected{1, 1, 1, 0.5, 0.5, 0.25, 0.25};
  ASSERT_EQ(distances.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(distances[i], expected[i], 1e-12) << "after " << i;
}

TEST(ConsensusDistance, IsThatOfTheWorstFirstRound) {
  // Rounds 1, 2 and 3 have the same groups, of which each has 1/2 twice: (1/2 − 1/6)/(1 − 1/6) of the square.
  const auto distances = consensus_distances(Groups(6, 2), 4);
  for (const std::size_t rounds : {1, 2, 3}) EXPECT_DOUBLE_EQ(distances[rounds], std::sqrt(0.4)) << rounds;
  EXPECT_LT(distances[4], 0.5);
}

TEST(ConsensusDistance, IsThatOfARankInASmallGroup) {
  // {0, 1} {2, 3, 4} {5, 6} {7, 8, 9}: 1/2 twice, (1/2 − 1/10)/(1 − 1/10) of the square.
  EXPECT_THAT(consensus_distances(Groups(10, 3, GroupOrder::fixed), 1), ElementsAre(1, ::testing::DoubleEq(2 / 3.0)));
  // {0, 1, 2} {3, 4}: (1/2 − 1/5)/(1 − 1/5) of the square.
  EXPECT_THAT(consensus_distances(Groups(5, 4, GroupOrder::fixed), 1),
              ElementsAre(1, ::testing::DoubleEq(std::sqrt(0.375))));
}

TEST(ConsensusDistance, StaysWhereGroupsAreFixed) {
  const double apart = 1 / std::sqrt(7.0);
  const auto as_apart = ::testing::DoubleEq(apart);
  EXPECT_THAT(consensus_distances(Groups(8, 4, GroupOrder::fixed), 3), ElementsAre(1, as_apart, as_apart, as_apart));
}

TEST(ConsensusDistance, OfOneGroupAndOfOneRankIsNothing) {
  EXPECT_THAT(consensus_distances(Groups(4, 4), 2), ElementsAre(1, 0, 0));
  EXPECT_THAT(consensus_distances(Groups(1, 1), 2), ElementsAre(0, 0, 0));
}

TEST(ConsensusDistance, IsNothingAfterMRoundsWhereGroupsMeetEvenly) {
  for (const auto& [ranks, size] : {std::pair(32, 4), {27, 3}, {36, 6}, {12, 6}, {18, 6}, {50, 10}, {16, 15}}) {
    const Groups groups(ranks, size);
    const int rounds = mixing_number(groups).value();
    const auto distances = consensus_distances(groups, rounds);
    EXPECT_NEAR(distances.back(), 0, 1e-12) << ranks << " ranks, size " << size;
    EXPECT_GT(distances[distances.size() - 2], 0.01) << ranks << " ranks, size " << size;
  }
}

/// What docs/algorithms.md says of a round, once the first two are over: 13 and 14 ranks are the worst of P ≤ 64.
TEST(ConsensusDistance, ShrinksByAConstantShareARound) {
  for (const auto& [ranks, size] : {std::pair(11, 4), {12, 5}, {13, 4}, {14, 4}, {17, 5}, {23, 12}, {33, 6}}) {
    const auto distances = consensus_distances(Groups(ranks, size), 8);
    EXPECT_LT(distances[2], 0.2) << ranks << " ranks, size " << size;
    EXPECT_LE(distances[8], distances[2] * std::pow(0.31, 6)) << ranks << " ranks, size " << size;
  }
}

}  // namespace
}  // namespace stretto
