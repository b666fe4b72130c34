// A group board step by step; group_board_live_test.cc runs many ranks at once.

#include "stretto/board/groups/group_board.h"

#include <gtest/gtest.h>

#include "stretto/board/testing/group_ranks.h"

namespace stretto {
namespace {

TEST(GroupBoard, SumsTheModelsThatStandOfThoseWhoComputeToo) {
  GroupRanks all({.shape = small_groups()}, {{{0, 1}, {2, 3}}, {{0, 2}, {1, 3}}});
  for (int rank = 0; rank < 4; ++rank) all.publish(rank, 1 << rank);
  all.run(0, 0);
  EXPECT_EQ(all.newest(0), 1u);
  EXPECT_EQ(all.newest(1), 1u) << "who computes has the result as well";
  EXPECT_EQ(all.newest(2), 0u);
  EXPECT_EQ(all.newest(3), 0u) << "the other group does nothing";
  EXPECT_EQ(all.sum_at(0), 0b0011);
  EXPECT_EQ(all.sum_at(1), 0b0011);
  all.publish(0, 16);
  all.run(0, 1);
  EXPECT_EQ(all.sum_at(2), 16 + 4) << "rank 2 has brought what stands";
  all.run(3, 0);
  EXPECT_EQ(all.sum_at(3), 0b1100);
  EXPECT_EQ(all.newest(2), 2u) << "it has a newer result, and keeps that";
  EXPECT_EQ(all.sum_at(2), 16 + 4);
  EXPECT_EQ(all.pins(), 0);
}

TEST(GroupBoard, AFullRoundBeginsWithTheLastRankAndTheNextBlockWhenItsResultIsTaken) {
  GroupRanks all({.shape = small_groups(2)}, {{{0, 1}, {2}}, {{0, 1, 2}}, {{0, 1}, {2}}});
  for (int rank = 0; rank < 3; ++rank) all.publish(rank, 1 << rank);
  all.run(2, 1);
  all.run(0, 1);
  EXPECT_EQ(all.newest(0), 0u) << "rank 1 has not come";
  EXPECT_FALSE(all[0].board.all_have_come(1));
  all.run(1, 1);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(all.sum_at(rank), 0b111);
  all[0].seat.took(2);
  all.publish(0, 8);
  all.run(0, 2);
  EXPECT_EQ(all.newest(0), 2u) << "rank 1 has not taken the result of the full round";
  EXPECT_TRUE(all[0].board.go_in());
  all[1].seat.took(2);
  all[1].board.wake_all();
  EXPECT_FALSE(all.memory().words().sleepers.contains(0));
  all.run(0, 2);
  EXPECT_EQ(all.sum_at(0), 8 + 2);
}

TEST(GroupBoard, AQuorumIsCountedOverAllRanksByRoundWithThoseThatHaveDrained) {
  GroupRanks all({.shape = small_groups(10, 3)}, {{{0, 1}, {2, 3}}});
  for (int rank = 0; rank < 4; ++rank) all.publish(rank, 1);
  all.run(0, 0);
  all.run(2, 0);
  EXPECT_EQ(all.newest(0), 0u) << "two of three";
  all[1].seat.arrive(5);
  all.run(0, 0);
  EXPECT_EQ(all.newest(0), 0u) << "rank 1 waits at another round";
  all[3].seat.drain();
  all.run(2, 0);
  EXPECT_EQ(all.newest(2), 1u);
  all.run(0, 0);
  EXPECT_EQ(all.newest(0), 1u) << "the round has started, for the other group, too";
}

TEST(GroupBoard, ARankThatHasPublishedNothingIsWaitedFor) {
  GroupRanks all({.shape = small_groups()}, {{{0, 1}}});
  all.publish(0, 1);
  all.run(0, 0);
  EXPECT_EQ(all.newest(0), 0u);
  all.publish(1, 2);
  all.run(0, 0);
  EXPECT_EQ(all.sum_at(0), 3);
}

/// The owner publishes three models after each number of steps of the sum, and never writes to one that is read.
TEST(GroupBoard, AModelIsNotWrittenToWhileASumReadsIt) {
  int older = 0, newer = 0;
  for (int steps = 0; steps < 60; ++steps) {
    GroupRanks all({.shape = small_groups(), .interleaved = true}, {{{0, 1}}});
    all.publish(0, 1);
    all.publish(1, 100);
    all[0].seat.arrive(0);
    for (int i = 0; i < steps; ++i) all[0].board.step(0);
    for (int i = 2; i < 5; ++i) all.publish(1, 100 * i);
    while (all.newest(0) == 0) all[0].board.step(0);
    while (all[0].board.step(0)) {
    }
    const std::int64_t sum = all.sum_at(0);  // checks that all elements are the same
    EXPECT_TRUE(sum == 101 || sum == 401) << sum << " after " << steps;
    EXPECT_EQ(all.pins(), 0) << steps;
    (sum == 101 ? older : newer) += 1;
  }
  EXPECT_GT(older, 5);
  EXPECT_GT(newer, 5);
}

/// A mean of integers, rounded down.
constexpr ModelMath kIntegers{
    .mean =
        [](DataType, std::span<std::byte> model, std::span<const std::byte> sum, double members) {
          auto* out = reinterpret_cast<std::int64_t*>(model.data());
          const auto* in = reinterpret_cast<const std::int64_t*>(sum.data());
          for (std::size_t i = 0; i < model.size() / 8; ++i) out[i] = in[i] / static_cast<std::int64_t>(members);
        },
    .put_on = nullptr};

TEST(GroupBoard, AMeanStandsOnEachMemberWhichCannotPublishMeanwhile) {
  GroupShape shape = small_groups();
  shape.moves = &kIntegers;
  int refused = 0;
  for (int steps = 0; steps < 60; ++steps) {
    GroupRanks all({.shape = shape, .interleaved = true}, {{{0, 1}}});
    all.publish(0, 10);
    all.publish(1, 30);
    all[0].seat.arrive(0);
    for (int i = 0; i < steps; ++i) all[0].board.step(0);
    const bool claimed = all[1].seat.claim();
    if (claimed) all.memory().seat(1).claimed = 0;
    if (!claimed) ++refused;
    while (all[0].board.step(0)) {
    }
    EXPECT_EQ(all.newest(0), 1u);
    for (const int rank : {0, 1}) {
      const auto stands = all[rank].seat.follow();
      ASSERT_TRUE(stands.has_value()) << rank;
      const auto* number = reinterpret_cast<const std::int64_t*>(all.memory().standing(rank, *stands, 0).data());
      EXPECT_EQ(*number, 20) << "of rank " << rank;
      EXPECT_FALSE(all[rank].seat.follow().has_value()) << "the rank has it";
    }
  }
  EXPECT_GT(refused, 5) << "the rank waits while its model is summed";
  EXPECT_LT(refused, 55);
}

TEST(GroupBoard, ASetThatIsReadIsNotGivenOut) {
  GroupRanks all({.shape = small_groups()}, {{{0, 1}}});
  all.publish(0, 1);
  const int stands = all.stands(0);
  for (int set = 0; set < 3; ++set) ++all.memory().set(0, set).pins;
  all.publish(0, 2);
  EXPECT_EQ(all.stands(0), 3) << "0 to 2 are read, and " << stands << " of them stood";
  EXPECT_EQ(all[0].seat.acquire(), std::nullopt);
  --all.memory().set(0, 1).pins;
  EXPECT_EQ(all[0].seat.acquire(), 1);
}

TEST(GroupBoard, AResultThatIsReadIsNotOverwritten) {
  std::vector<GroupRanks::Groups> rounds(9, {{0, 1}});
  GroupRanks all({.shape = small_groups()}, rounds);
  all.publish(0, 1);
  all.publish(1, 2);
  all.run(0, 0);
  const auto reading = all[1].seat.read(0);
  ASSERT_TRUE(reading);
  for (Round round = 1; round < 9; ++round) {
    all.publish(0, static_cast<std::int64_t>(10 * round));
    all.run(0, round);
    EXPECT_EQ(all.sum_in(*reading), 3) << round;
  }
  all[1].seat.release();
  EXPECT_EQ(all[1].seat.read(9), std::nullopt) << "none is of round 9";
  EXPECT_EQ(all.sum_in(all[1].seat.read(8).value()), 80 + 2);
  all[1].seat.release();
  EXPECT_EQ(all.uses(), 2u) << "the newest result of two ranks";
}

TEST(GroupBoard, AResultKeepsTheModelsOfTheRanksThatHaveIt) {
  GroupShape shape = small_groups();
  shape.keep_own = true;
  GroupRanks all({.shape = shape}, {{{0, 1}}, {{0, 1}}});
  all.publish(0, 1);
  all.publish(1, 2);
  all.run(0, 0);
  EXPECT_EQ(all.pins(), 2);
  const int kept = all.stands(1);
  for (int i = 0; i < 20; ++i) {
    all.publish(1, 3 + i);
    EXPECT_NE(all.stands(1), kept);
  }
  all.run(0, 1);
  EXPECT_EQ(all.pins(), 2) << "the newer result keeps two others";
  all.publish(1, 50);
  all.publish(1, 51);
  EXPECT_EQ(all.memory().set(1, kept).pins, 0);
}

TEST(GroupBoard, MembersThatWaitSumPiecesOfOneSum) {
  GroupShape shape = small_groups();
  shape.buckets = {{DataType::int64, 80}};  // ten pieces
  GroupRanks all({.shape = shape, .interleaved = true}, {{{0, 1}}});
  all.publish(0, 1);
  all.publish(1, 2);
  for (const int rank : {0, 1}) all[rank].seat.arrive(0);
  while (all.memory().desk(0).pieces == 0) all[0].board.step(0);
  while (all.newest(1) == 0) all[1].board.step(0);
  EXPECT_EQ(all.sum_at(1), 3) << "summed by rank 1 alone, as rank 0 stands still";
  EXPECT_EQ(all.newest(0), 1u);
  while (all[1].board.step(0)) {
  }
  while (all[0].board.step(0)) {
  }
  EXPECT_FALSE(all[0].board.busy());
  EXPECT_EQ(all.memory().result(0).uses, 2u);
}

TEST(GroupBoard, HeadersSayWhoBroughtWhat) {
  GroupRanks all({.shape = small_groups(3)}, {{{0, 1}}, {{0, 1}}, {{0, 1}}});
  all.publish(0, 1, 0, {.batches = 1, .samples = 4, .oldest_base = 0});
  all.publish(1, 2, 0, {.batches = 1, .samples = 5, .oldest_base = 0});
  all.run(0, 0);
  all.publish(0, 1, 1, {.batches = 2, .samples = 8, .oldest_base = 1});
  all.run(0, 1);
  const RoundHeader group = all.header_at(0);
  EXPECT_EQ(group.arrived.count(), 1);
  EXPECT_TRUE(group.fresh.contains(0));
  EXPECT_TRUE(group.stale.contains(1)) << "its model is of round 0";
  EXPECT_EQ(group.batches, 0u) << "they count in full rounds";
  all.publish(0, 1, 2, {.batches = 3, .samples = 12, .oldest_base = 2});
  all.publish(1, 2, 2, {.batches = 1, .samples = 5, .oldest_base = 2});
  all[0].seat.drain();
  all.run(0, 2);
  all.run(1, 2);
  const RoundHeader full = all.header_at(1);
  EXPECT_EQ(full.batches, 4u);
  EXPECT_EQ(full.samples, 17u);
  EXPECT_EQ(full.max_staleness(2), 1u) << "of rank 1's model in round 1";
  EXPECT_EQ(full.drained.count(), 1);
  EXPECT_EQ(all.memory().words().ended, 0u);
}

/// Who gets the bits of whom does not depend on who begins the sum, or on the order of the steps.
TEST(GroupBoard, SumsInTheFixedTreeOfTheMembers) {
  Random random(3);
  GroupShape shape = small_groups();
  shape.buckets = {{DataType::float32, 50}};
  for (const int ranks : {2, 3, 5, 7}) {
    GroupRanks::Groups everyone(1);
    for (int rank = 0; rank < ranks; ++rank) everyone[0].push_back(rank);
    for (int first = 0; first < ranks; ++first) {
      GroupRanks all({.shape = shape, .ranks = ranks}, {everyone});
      std::vector<std::optional<Bytes>> inputs;
      for (int rank = 0; rank < ranks; ++rank) {
        inputs.push_back(random_numbers(random, DataType::float32, ReduceOp::sum, 50));
        all.publish_bytes(rank, *inputs.back());
      }
      all.run(first, 0);
      const auto sum = all.memory().sum(all[first].seat.read(0).value(), 0);
      EXPECT_EQ(Bytes(sum.begin(), sum.end()), *by_fixed_tree(DataType::float32, ReduceOp::sum, inputs)) << ranks;
    }
  }
}

}  // namespace
}  // namespace stretto
