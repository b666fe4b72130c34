#include "stretto/collective/rounds/seating.h"

#include <gmock/gmock.h>

namespace stretto {
namespace {

using ::testing::ElementsAre;

TEST(Seating, SeatsAllOfAHostAtOneBoard) {
  const Seating seating(Members(5), 3, 0);
  EXPECT_EQ(seating.boards(), 1);
  EXPECT_THAT(seating.here(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(seating.seat(), 3);
  EXPECT_FALSE(seating.leads());
}

TEST(Seating, CutsAHostIntoBoardsWithFewerSeatsAtTheLast) {
  const Seating seating(Members(7), 6, 3);
  EXPECT_EQ(seating.boards(), 3);
  EXPECT_THAT(seating.at(1), ElementsAre(3, 4, 5));
  EXPECT_THAT(seating.here(), ElementsAre(6));
  EXPECT_THAT(seating.leaders(), ElementsAre(0, 3, 6));
  EXPECT_EQ(seating.boards_here(), 3);
}

TEST(Seating, SeatsAllOfAHostThatHasFewerThanABoard) {
  const Seating seating(Members({0, 0, 0, 1, 1}), 3, 3);
  EXPECT_EQ(seating.boards(), 2);
  EXPECT_THAT(seating.at(0), ElementsAre(0, 1, 2));
  EXPECT_THAT(seating.here(), ElementsAre(3, 4));
}

TEST(Seating, KeepsBoardsWithinHostsWhoseRanksAreDealtInTurn) {
  const Seating seating(Members({0, 1, 2, 0, 1, 2, 0, 1}), 7, 2);
  EXPECT_EQ(seating.boards(), 5);  // {0, 3}, {6}, {1, 4}, {7}, {2, 5}
  EXPECT_THAT(seating.leaders(), ElementsAre(0, 6, 1, 7, 2));
  EXPECT_THAT(seating.here(), ElementsAre(7));
  EXPECT_TRUE(seating.leads());
  EXPECT_EQ(seating.first_board_here(), 2);
  EXPECT_EQ(seating.boards_here(), 2);
  EXPECT_EQ(seating.board_of(4), 2);
  EXPECT_TRUE(Seating(Members({0, 1, 0, 1}), 2, 0).is_here(0));
  EXPECT_EQ(Seating(Members({0, 1, 0, 1}), 3, 0).seat_of(3), 1);
}

}  // namespace
}  // namespace stretto
