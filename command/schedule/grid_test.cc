#include "command/schedule/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::command {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(GridText, ShowsSeatsLinesAndCost) {
  EXPECT_EQ(grid_text(GridLayout(10), 100),
            " 0 3 6 9\n"
            " 1 4 7 ·\n"
            " 2 5 8 ·\n"
            "\n"
            "dimension 0: {0,1,2} {3,4,5} {6,7,8} {9}\n"
            "dimension 1: {0,3,6,9} {1,4,7} {2,5,8}\n"
            "\n"
            "10 nodes in 6 lines of two or more, 2 hops at most\n"
            "a round of each line: 84 messages with 10400 bytes in all, 1040 bytes a node in the mean, each way;\n"
            "headers of these messages, and 26 small ones that begin and end rounds, come on top\n");
}

/// As docs/grid_round.svg draws them.
TEST(GridText, ShowsNineNodesAsThePictureOfALateOneHasThem) {
  EXPECT_THAT(grid_text(GridLayout(9), 9), StartsWith(" 0 3 6\n"
                                                      " 1 4 7\n"
                                                      " 2 5 8\n"
                                                      "\n"
                                                      "dimension 0: {0,1,2} {3,4,5} {6,7,8}\n"
                                                      "dimension 1: {0,3,6} {1,4,7} {2,5,8}\n"));
}

/// 2d(p − 1)/p models a node, each way.
TEST(GridText, CountsTheBytesOfACube) {
  const std::string text = grid_text(GridLayout(64, {.dimensions = 3}), 1000);
  EXPECT_THAT(text, HasSubstr("layer 3\n 48 52 56 60\n"));
  EXPECT_THAT(text, HasSubstr("64 nodes in 48 lines of two or more, 3 hops at most\n"));
  EXPECT_THAT(text, HasSubstr(" 1152 messages with 1152000 bytes in all, 18000 bytes a node"));
}

TEST(GridText, ShowsOneDimensionAsARowAndThePapersHoles) {
  EXPECT_THAT(grid_text(GridLayout(3, {.dimensions = 1}), 3),
              StartsWith(" 0 1 2\n\ndimension 0: {0,1,2}\n\n3 nodes in 1"));
  EXPECT_THAT(grid_text(GridLayout(5, {.shape = GridShape::paper}), 3), StartsWith(" 0 3 ·\n · 1 4\n · · 2\n"));
}

}  // namespace
}  // namespace stretto::command
