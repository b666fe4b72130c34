#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/papers/neighbours/graphs.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string why(std::string_view content, int ranks) {
  try {
    (void)parse_edges(content, "g", ranks);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(GraphFile, ReadsAnEdgeALineInAnyOrderWithComments) {
  EXPECT_THAT(parse_edges("# a path\n2 1\n\n  0\t1 # the first\r\n", "g", 3), ElementsAre(Pair(0, 1), Pair(1, 2)));
  EXPECT_TRUE(parse_edges("", "g", 1).empty());
}

TEST(GraphFile, SaysInWhichLineSomethingIsWrong) {
  EXPECT_EQ(why("0 1\n1\n", 3), "graph g, line 2: \"1\" is no edge; expected two ranks such as \"0 1\"");
  EXPECT_THAT(why("0 1 2\n", 3), HasSubstr("line 1: \"0 1 2\" is no edge"));
  EXPECT_THAT(why("0 x\n", 3), HasSubstr("line 1: \"0 x\" is no edge"));
  EXPECT_THAT(why("0 99999999999\n", 3), HasSubstr("line 1: \"0 99999999999\" is no edge"));
  EXPECT_EQ(why("0 1\n\n1 3\n", 3), "graph g, line 3: there is no rank 3; expected 0 to 2");
  EXPECT_EQ(why("0 -1\n", 3), "graph g, line 1: there is no rank -1; expected 0 to 2");
  EXPECT_EQ(why("1 1\n", 3), "graph g, line 1: an edge from rank 1 to itself; expected two different ranks");
  EXPECT_EQ(why("0 1\n1 2\n1 0\n", 3), "graph g, line 3: the edge 0 1 of line 1 once more");
}

TEST(GraphFile, NamesTheRanksThatAreNotConnected) {
  EXPECT_EQ(why("0 2\n1 3\n", 5),
            "graph g is not connected: no path from rank 0 to rank 1, 3, 4; expected one between any two of 5 ranks");
  EXPECT_THAT(why("", 2), HasSubstr("no path from rank 0 to rank 1"));
}

TEST(GraphFile, SaysThatAFileCannotBeRead) {
  const auto why_not = [](const std::string& path) {
    try {
      (void)read_edges(path, 2);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_EQ(why_not("/nowhere/graph"),
            "graph /nowhere/graph: cannot open '/nowhere/graph': No such file or directory; expected ring, "
            "exponential, bipartite, complete or a file of edges, one \"a b\" a line");
  EXPECT_THAT(why_not("/"), HasSubstr("graph /: cannot read '/': it is a folder; expected ring"));
}

}  // namespace
}  // namespace stretto
