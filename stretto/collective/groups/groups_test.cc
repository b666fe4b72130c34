#include "stretto/collective/groups/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "stretto/base/error.h"
#include "stretto/collective/testing/sizes.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Ranks = std::vector<int>;

std::string why(int ranks, int group_size) {
  try {
    const Groups groups(ranks, group_size);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

/// The groups of ranks that differ in these bits alone.
std::vector<Ranks> differing_in(std::vector<int> bits, int ranks) {
  unsigned mask = 0;
  for (const int bit : bits) mask |= 1u << bit;
  std::vector<Ranks> out;
  for (unsigned lowest = 0; lowest < static_cast<unsigned>(ranks); ++lowest) {
    if ((lowest & mask) != 0) continue;
    Ranks& group = out.emplace_back();
    for (unsigned rank = 0; rank < static_cast<unsigned>(ranks); ++rank) {
      if ((rank & ~mask) == lowest) group.push_back(static_cast<int>(rank));
    }
  }
  return out;
}

TEST(Groups, OfPowersOfTwoAreThoseOfThePaper) {
  const Groups groups(8, 4);
  EXPECT_THAT(groups.all(0), ElementsAre(Ranks{0, 1, 2, 3}, Ranks{4, 5, 6, 7}));
  EXPECT_THAT(groups.all(1), ElementsAre(Ranks{0, 1, 4, 5}, Ranks{2, 3, 6, 7}));
  EXPECT_THAT(groups.all(2), ElementsAre(Ranks{0, 2, 4, 6}, Ranks{1, 3, 5, 7}));
  EXPECT_EQ(groups.all(3), groups.all(0));
}

TEST(Groups, OfPowersOfTwoGoOnAtTheLowestBitBehindTheHighest) {
  const Groups groups(32, 4);
  const std::vector<std::vector<int>> bits{{0, 1}, {2, 3}, {4, 0}, {1, 2}, {3, 4}};
  for (std::size_t round = 0; round < 15; ++round) {
    EXPECT_EQ(groups.all(round), differing_in(bits[round % 5], 32)) << "round " << round;
  }
  EXPECT_EQ(Groups(64, 8).all(1), differing_in({3, 4, 5}, 64));
  EXPECT_EQ(Groups(8, 2).all(2), differing_in({2}, 8));
}

TEST(Groups, OfOtherPowersDifferInADigit) {
  const Groups groups(9, 3);
  EXPECT_THAT(groups.all(0), ElementsAre(Ranks{0, 1, 2}, Ranks{3, 4, 5}, Ranks{6, 7, 8}));
  EXPECT_THAT(groups.all(1), ElementsAre(Ranks{0, 3, 6}, Ranks{1, 4, 7}, Ranks{2, 5, 8}));
  EXPECT_EQ(groups.all(2), groups.all(0));
  const Groups deep(27, 3);
  EXPECT_EQ(deep.members(14, 2), (Ranks{5, 14, 23}));
  EXPECT_EQ(deep.members(14, 4), (Ranks{11, 14, 17})) << "digit 1";
}

TEST(Groups, OfLargeSizeAreBlocksAndResiduesByTurns) {
  const Groups groups(7, 3);
  EXPECT_THAT(groups.all(0), ElementsAre(Ranks{0, 1, 2}, Ranks{3, 4}, Ranks{5, 6}));
  EXPECT_THAT(groups.all(1), ElementsAre(Ranks{0, 3, 6}, Ranks{1, 4}, Ranks{2, 5}));
  EXPECT_THAT(groups.all(2), ElementsAre(Ranks{0, 1, 6}, Ranks{2, 3}, Ranks{4, 5})) << "one rank further";
  EXPECT_THAT(groups.all(3), ElementsAre(Ranks{0, 3}, Ranks{1, 4}, Ranks{2, 5, 6}));
}

TEST(Groups, OfSmallSizeAreStridesApart) {
  const Groups groups(10, 3);
  EXPECT_THAT(groups.all(0), ElementsAre(Ranks{0, 1}, Ranks{2, 3, 4}, Ranks{5, 6}, Ranks{7, 8, 9}));
  EXPECT_THAT(groups.all(1), ElementsAre(Ranks{0, 3}, Ranks{1, 4, 7}, Ranks{2, 6, 9}, Ranks{5, 8}));
  EXPECT_THAT(groups.all(2), ElementsAre(Ranks{0, 9}, Ranks{1, 2, 3}, Ranks{4, 5}, Ranks{6, 7, 8}));
  EXPECT_THAT(groups.all(3), ElementsAre(Ranks{0, 8, 9}, Ranks{1, 2}, Ranks{3, 4, 5}, Ranks{6, 7})) << "one further";
  EXPECT_THAT(groups.all(4), ElementsAre(Ranks{0, 4, 7}, Ranks{1, 8}, Ranks{2, 5, 9}, Ranks{3, 6}));
}

TEST(Groups, OfSmallSizeHaveStridesThatReachEveryRank) {
  const Groups groups(6, 2);  // strides 1, 2 and 4, of which the last two have a divisor in common with 6: 5 instead
  EXPECT_THAT(groups.all(0), ElementsAre(Ranks{0, 1}, Ranks{2, 3}, Ranks{4, 5}));
  EXPECT_THAT(groups.all(1), ElementsAre(Ranks{0, 5}, Ranks{1, 2}, Ranks{3, 4}));
  EXPECT_EQ(groups.all(2), groups.all(1));
  EXPECT_EQ(groups.all(3), groups.all(1)) << "stride 1, one further";
  EXPECT_THAT(Groups(30, 5).members(3, 3), ElementsAre(2, 3, 4, 5, 6)) << "further by half of a group";
}

TEST(Groups, OfAllRanksAreOne) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 16, 33}) {
    const Groups groups(ranks, ranks);
    EXPECT_EQ(groups.count(), 1);
    EXPECT_EQ(groups.cycle(), 1);
    EXPECT_EQ(groups.numbers(17), Ranks(static_cast<std::size_t>(ranks), 0));
  }
}

/// Every round's groups, for every number of ranks and every size.
TEST(Groups, PartitionTheRanksEvenly) {
  for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
    for (int size = 2; size <= ranks; ++size) {
      const Groups groups(ranks, size);
      ASSERT_EQ(groups.count(), (ranks + size - 1) / size);
      Ranks of_group(static_cast<std::size_t>(groups.count()));
      for (Round round = 0; round < groups.period(); ++round) {
        std::ranges::fill(of_group, 0);
        int seen = 0;  // groups of lower ranks
        for (const int number : groups.numbers(round)) {
          const bool in_order = number >= 0 && number <= seen && number < groups.count();
          ASSERT_TRUE(in_order) << ranks << " ranks, size " << size << ", round " << round << ": group " << number;
          seen = std::max(seen, number + 1);
          ++of_group[static_cast<std::size_t>(number)];
        }
        const auto [smallest, largest] = std::ranges::minmax(of_group);
        ASSERT_TRUE(smallest >= 1 && largest <= size && largest - smallest <= 1)
            << ranks << " ranks, size " << size << ", round " << round << ": " << smallest << " to " << largest;
      }
    }
  }
}

TEST(Groups, RepeatAfterAPeriod) {
  for (const auto& [ranks, size] : {std::pair(64, 8), {32, 4}, {27, 3}, {7, 3}, {63, 2}, {30, 5}, {33, 7}}) {
    const Groups groups(ranks, size);
    const Round period = groups.period();
    const Round late = std::numeric_limits<Round>::max() / period * period - period;
    for (Round round = 0; round < period; ++round) {
      const Ranks numbers = groups.numbers(round);
      ASSERT_EQ(groups.numbers(round + period), numbers) << ranks << " ranks, size " << size << ", round " << round;
      ASSERT_EQ(groups.numbers(round + late), numbers) << ranks << " ranks, size " << size << ", round " << round;
    }
  }
}

TEST(Groups, MembersAreTheWholeGroup) {
  for (const auto& [ranks, size] : {std::pair(8, 4), {9, 3}, {7, 3}, {10, 3}, {5, 5}}) {
    const Groups groups(ranks, size);
    for (Round round = 0; round < 9; ++round) {
      for (const Ranks& group : groups.all(round)) {
        EXPECT_TRUE(std::ranges::is_sorted(group));
        for (const int rank : group) EXPECT_EQ(groups.members(rank, round), group) << "rank " << rank;
      }
    }
  }
}

TEST(Groups, OfFixedOrderAreThoseOfRoundZero) {
  for (const auto& [ranks, size] : {std::pair(8, 4), {9, 3}, {7, 3}, {10, 3}}) {
    const Groups dynamic(ranks, size), fixed(ranks, size, GroupOrder::fixed);
    EXPECT_EQ(fixed.period(), 1u);
    for (const Round round : {Round{0}, Round{1}, Round{2}, Round{1000003}}) {
      EXPECT_EQ(fixed.all(round), dynamic.all(0)) << ranks << " ranks, size " << size << ", round " << round;
    }
  }
}

TEST(Groups, RefuseSizesThatCannotBe) {
  EXPECT_EQ(why(8, 1), "group size 1 of a job of 8 ranks; expected a number from 2 to 8, such as 4");
  EXPECT_EQ(why(8, 9), "group size 9 of a job of 8 ranks; expected a number from 2 to 8, such as 4");
  EXPECT_THAT(why(8, 0), HasSubstr("from 2 to 8"));
  EXPECT_THAT(why(8, -3), HasSubstr("group size -3"));
  EXPECT_EQ(why(1, 2), "group size 2 of a job of 1 rank; expected 1: there is nobody to average with");
  EXPECT_EQ(why(1, 1), "accepted");
  EXPECT_EQ(why(0, 2), "groups of 0 ranks; expected at least 1");
  EXPECT_THROW(default_group_size(0), UsageError);
}

TEST(DefaultGroupSize, IsTheSmallestDivisorFromTheRootOn) {
  const std::vector<std::pair<int, int>> expected{{1, 1},   {2, 2},  {3, 3},  {4, 2},  {5, 3},    {6, 3},    {7, 3},
                                                  {8, 4},   {9, 3},  {10, 5}, {11, 4}, {12, 4},   {16, 4},   {32, 8},
                                                  {33, 11}, {36, 6}, {47, 7}, {64, 8}, {100, 10}, {1024, 32}};
  for (const auto& [ranks, size] : expected) EXPECT_EQ(default_group_size(ranks), size) << ranks << " ranks";
  for (int ranks = 2; ranks <= 300; ++ranks) EXPECT_EQ(why(ranks, default_group_size(ranks)), "accepted");
}

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
