#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <numeric>

#include "stretto/base/error.h"
#include "stretto/collective/testing/sizes.h"
#include "stretto/papers/neighbours/graphs.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A fraction, always in lowest terms.
struct Fraction {
  std::int64_t num, den;
  friend Fraction operator-(Fraction a, Fraction b) {
    const std::int64_t num = a.num * b.den - b.num * a.den, den = a.den * b.den, common = std::gcd(num, den);
    return {num / common, den / common};
  }
};

class GraphInAFile {
 public:
  explicit GraphInAFile(const std::string& content) : path_(testing::TempDir() + "mixing_graph_test.edges") {
    std::ofstream(path_) << content;
  }
  ~GraphInAFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Every row sums to 1 by what the own model counts, which is positive; and the matrix is symmetric.
void expect_symmetric(const MixingGraph& graph, int ranks, Round round) {
  std::vector<std::vector<int>> parts(static_cast<std::size_t>(ranks),
                                      std::vector<int>(static_cast<std::size_t>(ranks)));
  for (int rank = 0; rank < ranks; ++rank) {
    Fraction own{1, 1};
    const auto shares = graph.shares(rank, round);
    for (const Share& share : shares) {
      ASSERT_NE(share.rank, rank);
      parts[static_cast<std::size_t>(rank)][static_cast<std::size_t>(share.rank)] = share.parts;
      own = own - Fraction{1, share.parts};
    }
    ASSERT_GT(own.num, 0);
    ASSERT_NEAR(own_share(shares), static_cast<double>(own.num) / static_cast<double>(own.den), 1e-12);
    const Links links = graph.links(rank, round);
    ASSERT_EQ(links.in, links.out);
    ASSERT_EQ(links.in.size(), shares.size());
    for (std::size_t i = 0; i < shares.size(); ++i) ASSERT_EQ(shares[i].rank, links.in[i]);
  }
  for (std::size_t a = 0; a < parts.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) ASSERT_EQ(parts[a][b], parts[b][a]) << a << ' ' << b;
  }
}

/// Whether what rank 0 knows reaches everybody in so many rounds.
bool mixes(const MixingGraph& graph, int ranks, Round rounds) {
  std::vector<bool> reached(static_cast<std::size_t>(ranks));
  reached[0] = true;
  for (Round round = 0; round < rounds; ++round) {
    auto next = reached;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const int peer : graph.links(rank, round).in) {
        if (reached[static_cast<std::size_t>(peer)]) next[static_cast<std::size_t>(rank)] = true;
      }
    }
    reached = next;
  }
  return std::ranges::count(reached, true) == ranks;
}

TEST(MixingGraph, IsSymmetricWithRowsThatSumToOneAndReachesAllRanks) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (const char* name : {"ring", "exponential", "bipartite", "complete"}) {
      if (std::string(name) == "bipartite" && ranks > 1 && ranks % 2 == 1) continue;
      const MixingGraph graph(name, ranks);
      for (Round round = 0; round < 14; ++round) ASSERT_NO_FATAL_FAILURE(expect_symmetric(graph, ranks, round)) << name;
      EXPECT_TRUE(mixes(graph, ranks, 64)) << name << ", " << ranks << " ranks";
    }
  }
}

TEST(MixingGraph, HasTheNeighboursOfItsName) {
  EXPECT_THAT(MixingGraph("ring", 5).shares(0, 7), ElementsAre(Share{1, 3}, Share{4, 3}));
  EXPECT_THAT(MixingGraph("ring", 2).shares(0, 7), ElementsAre(Share{1, 2}));
  EXPECT_THAT(MixingGraph("ring", 1).shares(0, 0), IsEmpty());
  EXPECT_THAT(MixingGraph("complete", 4).shares(2, 0), ElementsAre(Share{0, 4}, Share{1, 4}, Share{3, 4}));
  const MixingGraph exponential("exponential", 8);
  EXPECT_THAT(exponential.links(0, 0).in, ElementsAre(1, 7));
  EXPECT_THAT(exponential.links(0, 1).in, ElementsAre(2, 6));
  EXPECT_THAT(exponential.shares(0, 2), ElementsAre(Share{4, 2}));
  EXPECT_THAT(exponential.links(0, 3).in, ElementsAre(1, 7));
  const MixingGraph bipartite("bipartite", 8);
  EXPECT_THAT(bipartite.links(0, 0).in, ElementsAre(1));
  EXPECT_THAT(bipartite.links(0, 1).in, ElementsAre(3));
  EXPECT_THAT(bipartite.links(0, 2).in, ElementsAre(5));
  EXPECT_THAT(bipartite.links(5, 2).in, ElementsAre(0));
}

TEST(MixingGraph, WeighsTheEdgesOfAFileAsMetropolisDoes) {
  // A star of three around rank 0, with a tail.
  const GraphInAFile file("0 1\n0 2\n0 3\n3 4\n");
  const MixingGraph graph(file.path(), 5);
  expect_symmetric(graph, 5, 0);
  EXPECT_THAT(graph.shares(0, 0), ElementsAre(Share{1, 4}, Share{2, 4}, Share{3, 4}));
  EXPECT_THAT(graph.shares(3, 9), ElementsAre(Share{0, 4}, Share{4, 3}));
  EXPECT_THAT(graph.shares(4, 9), ElementsAre(Share{3, 3}));
  EXPECT_EQ(graph.description(), "a graph of edges 0-1 0-2 0-3 3-4");
  EXPECT_TRUE(mixes(graph, 5, 4));
}

TEST(MixingGraph, RefusesWhatTheseRanksCannotHave) {
  EXPECT_THROW(MixingGraph("bipartite", 5), UsageError);
  EXPECT_THROW(MixingGraph("rign", 4), UsageError);  // no file of this name
}

TEST(OddHops, AreShorterThanOnceAround) {
  EXPECT_THAT(odd_hops(2), ElementsAre(1));
  EXPECT_THAT(odd_hops(4), ElementsAre(1, 3));
  EXPECT_THAT(odd_hops(18), ElementsAre(1, 3, 5, 9, 17));
}

}  // namespace
}  // namespace stretto
