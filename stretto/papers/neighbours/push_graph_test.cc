#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "stretto/base/error.h"
#include "stretto/collective/testing/sizes.h"
#include "stretto/papers/neighbours/graphs.h"
#include "stretto/transport/transport.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string why(const std::string& graph, int ranks, int neighbours) {
  try {
    const PushGraph made(graph, ranks, neighbours);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

/// What one rank sends the other receives, and each sends to as many others, so that with a part of 1/(K + 1) for each
/// of them and for itself the columns sum to 1.
template <class LinksOf>
void expect_consistent(int ranks, std::size_t most, const LinksOf& links_of) {
  std::size_t neighbours = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const Links links = links_of(rank);
    if (rank == 0) neighbours = links.out.size();
    ASSERT_EQ(links.out.size(), neighbours);
    ASSERT_LE(links.out.size(), most);
    ASSERT_EQ(links.in.size(), neighbours);
    ASSERT_TRUE(std::ranges::is_sorted(links.out) && std::ranges::is_sorted(links.in));
    ASSERT_EQ(std::set<int>(links.out.begin(), links.out.end()).size(), neighbours);
    for (const int peer : links.out) {
      ASSERT_NE(peer, rank);
      const Links theirs = links_of(peer);
      ASSERT_TRUE(std::ranges::binary_search(theirs.in, rank)) << rank << " to " << peer;
    }
  }
  ASSERT_EQ(neighbours == 0, ranks == 1);
}

TEST(PushGraph, ColumnsSumToOneForEveryNumberOfRanks) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (const char* name : {"exponential", "bipartite"}) {
      if (std::string(name) == "bipartite" && ranks > 1 && ranks % 2 == 1) continue;
      for (const int neighbours : {1, 2, 4}) {
        if (ranks > 1 && neighbours >= ranks) continue;
        const PushGraph graph(name, ranks, neighbours);
        for (Round round = 0; round < 14; ++round) {
          const auto links_of = [&](int rank) { return graph.links(rank, round); };
          ASSERT_NO_FATAL_FAILURE(expect_consistent(ranks, static_cast<std::size_t>(neighbours), links_of))
              << name << ", " << ranks << " ranks, round " << round;
        }
      }
    }
  }
}

TEST(PushGraph, HopsByPowersOfTwoOrByOddLengths) {
  const PushGraph exponential("exponential", 5, 2);
  EXPECT_THAT(exponential.links(0, 0).out, ElementsAre(1, 2));
  EXPECT_THAT(exponential.links(0, 1).out, ElementsAre(2, 4));
  EXPECT_THAT(exponential.links(0, 2).out, ElementsAre(1, 4));
  EXPECT_THAT(exponential.links(0, 2).in, ElementsAre(1, 4));
  EXPECT_THAT(PushGraph("exponential", 5, 4).links(0, 0).out, ElementsAre(1, 2, 4)) << "hops of 1, 2 and 4 alone";
  const PushGraph bipartite("bipartite", 8, 1);
  EXPECT_THAT(bipartite.links(7, 2).out, ElementsAre(4));
  EXPECT_THAT(bipartite.links(7, 2).in, ElementsAre(2));
  EXPECT_THAT(PushGraph("exponential", 1, 1).links(0, 3).out, IsEmpty());
}

TEST(PushGraph, RefusesWhatTheseRanksCannotHave) {
  EXPECT_EQ(why("exponential", 4, 4), "neighbours 4 with 4 ranks: expected 1 to 3, the others");
  EXPECT_EQ(why("exponential", 4, 0), "neighbours 0 with 4 ranks: expected 1 to 3, the others");
  EXPECT_EQ(why("ring", 4, 1), "graph 'ring': expected exponential or bipartite");
  EXPECT_EQ(
      why("bipartite", 5, 1),
      "graph bipartite joins even and odd ranks, and there are 5 ranks; expected an even number of them, or graph "
      "exponential");
}

TEST(GossipLinks, AreAPermutationInEveryRound) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (Round round = 0; round < 20; ++round) {
      const auto links_of = [&](int rank) { return gossip_links(rank, ranks, round, 7); };
      ASSERT_NO_FATAL_FAILURE(expect_consistent(ranks, 1, links_of)) << ranks << " ranks, round " << round;
    }
  }
}

TEST(GossipLinks, NumberTheRanksAnewAfterEachCycleAndByTheSeed) {
  std::set<std::vector<int>> cycles;
  for (Round cycle = 0; cycle < 8; ++cycle) {
    std::vector<int> partners;
    for (int rank = 0; rank < 16; ++rank) partners.push_back(gossip_links(rank, 16, 4 * cycle, 1).out[0]);
    cycles.insert(partners);
    // Inside a cycle the second hop is the first one made twice.
    for (int rank = 0; rank < 16; ++rank) {
      const int next = partners[static_cast<std::size_t>(partners[static_cast<std::size_t>(rank)])];
      EXPECT_EQ(gossip_links(rank, 16, 4 * cycle + 1, 1).out[0], next);
    }
  }
  EXPECT_EQ(cycles.size(), 8u);
  EXPECT_NE(gossip_links(0, 64, 0, 1), gossip_links(0, 64, 0, 2));
}

}  // namespace
}  // namespace stretto
