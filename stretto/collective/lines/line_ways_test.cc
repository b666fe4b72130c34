#include "stretto/collective/lines/line_ways.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto {
namespace {

using ::testing::Optional;

TEST(LineWays, ARoundSendsNothingBehindAnotherOnesMessage) {
  LineWays ways(3, 1);
  ways.open(0);
  EXPECT_TRUE(ways.may_send(0, 1));
  EXPECT_TRUE(ways.may_send(0, 2));
  EXPECT_EQ(ways.sent(0, 2), std::nullopt);
  EXPECT_EQ(ways.average(0).members(), (std::vector<int>{1, 2}));
  ways.open(1);
  EXPECT_FALSE(ways.may_send(1, 1)) << "a contribution and a mean are on their way";
  EXPECT_FALSE(ways.may_send(1, 2)) << "the mean is to come before";
  EXPECT_TRUE(ways.waits(1));
  EXPECT_THAT(ways.sent(0, 2), Optional(Round{1}));
  EXPECT_EQ(ways.sent(0, 1), std::nullopt) << "the other one is on its way";
  EXPECT_THAT(ways.sent(0, 1), Optional(Round{1}));
  EXPECT_FALSE(ways.waits(1));
}

TEST(LineWays, ARoundThatHasEndedSendsNoMore) {
  LineWays ways(2, 1);
  ways.open(0);
  EXPECT_TRUE(ways.may_send(0, 1));
  ways.end(0);
  EXPECT_TRUE(ways.sends(0));
  for (Round round = 1; round < 9; ++round) {
    ways.open(round);
    EXPECT_FALSE(ways.may_send(round, 1));
    if (round == 8) break;
    ways.end(round);
    EXPECT_FALSE(ways.sends(round));
  }
  EXPECT_THAT(ways.sent(0, 1), Optional(Round{8})) << "the member lacks those between";
  EXPECT_FALSE(ways.sends(0));
  EXPECT_FALSE(ways.may_send(7, 1));
}

TEST(LineWays, ARoundOwesNothingOnceSoManyNewerOnesAreOpen) {
  LineWays ways(2, 2);
  ways.open(0);
  EXPECT_TRUE(ways.may_send(0, 1));
  ways.open(1);
  EXPECT_FALSE(ways.may_send(1, 1));
  ways.open(2);
  EXPECT_TRUE(ways.waits(1));
  EXPECT_FALSE(ways.may_send(2, 1));
  ways.open(3);
  EXPECT_FALSE(ways.waits(1));
  EXPECT_TRUE(ways.waits(2));
  EXPECT_FALSE(ways.may_send(1, 1));
  EXPECT_THAT(ways.sent(0, 1), Optional(Round{2}));
}

TEST(LineWays, AMeanGoesWithAContributionThatHasWaited) {
  LineWays ways(2, 1);
  ways.open(0);
  EXPECT_TRUE(ways.may_send(0, 1));
  ways.open(1);
  EXPECT_FALSE(ways.may_send(1, 1));
  EXPECT_TRUE(ways.average(1).empty());
  EXPECT_THAT(ways.sent(0, 1), Optional(Round{1}));
  ways.open(2);
  EXPECT_FALSE(ways.may_send(2, 1));
  EXPECT_EQ(ways.sent(1, 1), std::nullopt);
  EXPECT_THAT(ways.sent(1, 1), Optional(Round{2}));
}

}  // namespace
}  // namespace stretto
