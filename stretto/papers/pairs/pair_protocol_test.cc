#include "stretto/papers/pairs/pair_protocol.h"

#include <gtest/gtest.h>

#include <set>

namespace stretto {
namespace {

TEST(PairProtocol, EvenRanksAskAndOddRanksAnswer) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 16, 33}) {
    for (int rank = 0; rank < ranks; ++rank) {
      const PairProtocol p(rank, ranks, Pairing::bipartite, 7);
      EXPECT_EQ(p.asks(), rank % 2 == 0 && ranks > 1) << rank << " of " << ranks;
      EXPECT_EQ(p.answers(), rank % 2 == 1) << rank << " of " << ranks;
      for (int peer = 0; peer < ranks; ++peer) EXPECT_EQ(p.is_asked_by(peer), rank % 2 == 1 && peer % 2 == 0);
    }
  }
}

TEST(PairProtocol, DrawsEveryOddRankAsPartnerAndTheSameOnesFromTheSameSeed) {
  for (const int ranks : {2, 3, 5, 8}) {
    const PairProtocol a(2 % ranks, ranks, Pairing::bipartite, 7), b(2 % ranks, ranks, Pairing::bipartite, 7);
    std::set<int> partners;
    for (std::uint64_t n = 0; n < 100; ++n) {
      partners.insert(a.partner(n));
      EXPECT_EQ(a.partner(n), b.partner(n));
    }
    EXPECT_EQ(partners.size(), static_cast<std::size_t>(ranks / 2));
    for (const int partner : partners) EXPECT_EQ(partner % 2, 1);
  }
}

TEST(PairProtocol, AllRanksAskTheOwnerOfTheCenter) {
  for (int rank = 0; rank < 3; ++rank) {
    const PairProtocol p(rank, 3, Pairing::center, 7);
    EXPECT_TRUE(p.asks());
    EXPECT_EQ(p.answers(), rank == 0);
    EXPECT_EQ(p.partner(5), 0);
  }
  EXPECT_FALSE(PairProtocol(0, 3, Pairing::center, 7).is_asked_by(0)) << "by no message";
}

TEST(PairProtocol, AnswersOnlyOnceItsApplicationHasBegunThePhase) {
  PairProtocol p(1, 2, Pairing::bipartite, 7);
  EXPECT_FALSE(p.may_answer(1));
  p.begin_phase();
  EXPECT_TRUE(p.may_answer(1));
  EXPECT_FALSE(p.may_answer(2));
  p.end_phase();
  EXPECT_TRUE(p.may_answer(1)) << "until the asking ranks are done";
}

TEST(PairProtocol, AnAnsweringRankSettlesWhenAllThatAskItAreDone) {
  PairProtocol p(1, 5, Pairing::bipartite, 7);
  p.begin_phase();
  for (const int peer : {0, 2, 4}) {
    p.end_phase();
    EXPECT_FALSE(p.settled());
    EXPECT_TRUE(p.is_missing(peer));
    p.heard_done(peer, 1);
    EXPECT_FALSE(p.is_missing(peer));
  }
  EXPECT_TRUE(p.settled());
  EXPECT_FALSE(p.must_tell_done()) << "it asks nobody";
}

TEST(PairProtocol, AnAskingRankIsDoneOnceItHasBeenAnswered) {
  PairProtocol p(0, 2, Pairing::bipartite, 7);
  p.begin_phase();
  p.asked();
  p.end_phase();
  EXPECT_FALSE(p.must_tell_done());
  p.answered();
  EXPECT_TRUE(p.must_tell_done());
  EXPECT_FALSE(p.settled());
  p.told_done();
  EXPECT_FALSE(p.must_tell_done());
  EXPECT_TRUE(p.settled());
}

}  // namespace
}  // namespace stretto
