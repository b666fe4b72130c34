#include "command/schedule/mixing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "command/cli/table.h"

namespace stretto::command {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(MixingTable, HasALineForEachNumberOfRanks) {
  EXPECT_THAT(mixing_table(7, 9, GroupOrder::dynamic), EndsWith("    7  2: 6 (3), 3: 3 (2), 4–6: 2, 7: 1\n"
                                                                "    8  2: 3, 3: 3 (2), 4–7: 2, 8: 1\n"
                                                                "    9  2: 8 (4), 3–8: 2, 9: 1\n"));
  EXPECT_THAT(mixing_table(8, 8, GroupOrder::fixed), EndsWith("    8  2: never (3), 3–7: never (2), 8: 1\n"));
}

TEST(MixingTable, IsNoWiderThanAScreen) {
  std::istringstream lines(mixing_table(60, 64, GroupOrder::dynamic));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(width_of(line), 100u) << line;
  EXPECT_EQ(count, 4 + 5);
}

TEST(DistanceTable, ShowsEveryRound) {
  const std::string table = distance_table(Groups(8, 4));
  EXPECT_THAT(table, HasSubstr("8 ranks in 2 groups of 4 at most, dynamic: M = 2, L = 2\n"));
  EXPECT_THAT(table, HasSubstr("\n0              1\n"));
  EXPECT_THAT(table, EndsWith("\n12             0\n"));
}

}  // namespace
}  // namespace stretto::command
