// One of several boards, step by step: the differences where a leader ends the rounds.

#include <gtest/gtest.h>

#include "stretto/board/open_round.h"
#include "stretto/board/partial_memory.h"
#include "stretto/board/testing/board_ranks.h"

namespace stretto {
namespace {

TEST(OneOfSeveralBoards, KeepsARoundOpenForItsLeaderToEnd) {
  PartialShape shape = small(20);
  shape.buckets.push_back({DataType::int64, 3});
  shape.job_ranks = 5;
  shape.ranks = {2, 4};
  Ranks all(shape, 2, 2);
  all.deposit(0, 1);
  all.deposit(1, 10);
  all.arrive(0);
  all.arrive(1);
  EXPECT_FALSE(all.memory().bucket_summed(0, 0));
  all.run(1);
  EXPECT_TRUE(all.memory().bucket_summed(0, 0));
  EXPECT_TRUE(all.memory().bucket_summed(0, 1));
  EXPECT_FALSE(all.memory().bucket_summed(1, 0));
  EXPECT_EQ(all.rings[0], 2) << "once a bucket";
  EXPECT_EQ(reinterpret_cast<const std::int64_t*>(all.memory().sum(0, 0).data())[19], 11);
  EXPECT_EQ(all.result(0), 0) << "what all boards bring together goes there";
  all.run(0);
  EXPECT_EQ(all[0].board.complete(), 0u);
  EXPECT_TRUE(all[0].board.in_flight());

  RoundHeader header = read_own_record(all.memory(), 0);
  EXPECT_EQ(header.ranks(), 5);
  EXPECT_EQ(header.batches, 2u);
  EXPECT_TRUE(header.fresh.contains(2) && header.fresh.contains(4));
  EXPECT_EQ(header.arrived.count(), 2);
  header.batches = 9;
  header.fresh.insert(3);
  all[1].board.go_in();
  all[0].board.end(0, header);
  EXPECT_EQ(all[0].board.complete(), 1u);
  EXPECT_EQ(all[1].board.header(0), header);
  EXPECT_EQ(all.memory().record(0).rule[1], 9u) << "the next policy follows from what all bring";
}

TEST(OneOfSeveralBoards, CountsTheBucketsOfARoundThatIsEmptyHere) {
  PartialShape shape = small(20);
  shape.job_ranks = 3;
  shape.ranks = {0, 1};
  Ranks all(shape, 2, 1);
  all.arrive(1);
  all.run(1);
  EXPECT_TRUE(all.memory().bucket_summed(0, 0));
  EXPECT_EQ(all.rings[0], 1);
  EXPECT_TRUE(read_own_record(all.memory(), 0).empty());
}

TEST(OneOfSeveralBoards, SumsAheadOnlyWhereNoSumIsLeaving) {
  PartialShape shape = small(8 << 10);
  shape.order = SumOrder::arrival;
  shape.job_ranks = 9;
  shape.ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  Ranks all(shape, 8, 8);
  const auto come = [&](int ranks) {
    for (int rank = 0; rank < ranks; ++rank) all.deposit(rank, 1);
    for (int rank = 0; rank < ranks; ++rank) all.arrive(rank);
  };
  for (Round round = 0; round < 3; ++round) {
    come(4);
    all.run(1);
    const PlanWord plan(all.memory().words().plan.load());
    EXPECT_EQ(plan.round() == round && plan.sources() == 4, round < 2) << "round " << round;
    for (int rank = 4; rank < 8; ++rank) all.deposit(rank, 1);
    for (int rank = 4; rank < 8; ++rank) all.arrive(rank);
    all.run(1);
    EXPECT_EQ(reinterpret_cast<const std::int64_t*>(all.memory().sum(round, 0).data())[0], 8);
    all[0].board.end(round, read_own_record(all.memory(), round));
    for (int rank = 0; rank < 8; ++rank) all[rank].seat.hand_over(round + 1);
  }
  EXPECT_FALSE(all.memory().sum_is_free(2));
  all.memory().words().left = 1;
  EXPECT_TRUE(all.memory().sum_is_free(2));
  EXPECT_NE(all.memory().sum(2, 0).data(), all.memory().sum(1, 0).data());
}

}  // namespace
}  // namespace stretto
