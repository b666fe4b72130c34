#include "stretto/transport/members.h"

#include <gmock/gmock.h>

namespace stretto {
namespace {

using ::testing::ElementsAre;

TEST(Members, AreOnOneHostWhereNothingElseIsSaid) {
  const Members members(3);
  EXPECT_EQ(members.size(), 3);
  EXPECT_EQ(members.hosts(), 1);
  EXPECT_THAT(members.on(0), ElementsAre(0, 1, 2));
}

TEST(Members, NameTheHostOfEachRankWhereThereAreSeveral) {
  EXPECT_EQ(Members({3, 5, 3}, {"a", "b", "a"}).host_names(), (std::vector<std::string>{"a", "b", "a"}));
  EXPECT_TRUE(Members({5, 5}, {"a", "a"}).host_names().empty());
  EXPECT_TRUE(Members({3, 5}).host_names().empty());
}

TEST(Members, NumberHostsByTheirLowestRanksWhateverTheirNames) {
  const Members members({70, 8, 70, 9, 8});
  EXPECT_EQ(members.hosts(), 3);
  EXPECT_THAT(members.on(0), ElementsAre(0, 2));
  EXPECT_THAT(members.on(1), ElementsAre(1, 4));
  EXPECT_THAT(members.on(2), ElementsAre(3));
  for (int rank = 0; rank < members.size(); ++rank) {
    EXPECT_EQ(members.on(members.host_of(rank))[static_cast<std::size_t>(members.place_of(rank))], rank);
  }
}

}  // namespace
}  // namespace stretto
