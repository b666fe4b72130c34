// The leader of one of several boards step by step; group_allreduce_test.cc runs many boards at once.

#include "stretto/board/groups/group_parts.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "stretto/board/testing/group_ranks.h"

namespace stretto {
namespace {

/// A board of ranks 2, 3 and 4 of a job of six.
struct Board {
  explicit Board(bool keep_own = false, bool interleaved = false)
      : ranks({.shape = {.buckets = {{DataType::int64, 20}},
                         .keep_own = keep_own,
                         .piece_bytes = 64,
                         .job_ranks = 6,
                         .ranks = {2, 3, 4}},
               .ranks = 3},
              {{{0, 1, 2}}}),
        parts(
            ranks.memory(), [this](int seat, std::uint64_t version) { joined.emplace_back(seat, version); },
            [this](const GroupPart& part) { ready.push_back(part); }, interleaved) {}
  void run() {
    while (parts.busy()) parts.step();
  }
  std::int64_t sum(const GroupPart& part) {
    return reinterpret_cast<const std::int64_t*>(parts.summed(part, 0).data())[19];
  }

  GroupRanks ranks;
  GroupParts parts;
  std::vector<std::pair<int, std::uint64_t>> joined;
  std::vector<GroupPart> ready;
};

TEST(GroupParts, SumsWhatStandsOfEachGroupAndHandsItOver) {
  Board board;
  const Round round = 0;
  for (int seat = 0; seat < 3; ++seat) board.ranks.publish(seat, 1 << seat);
  board.ranks.publish(2, 8);
  board.ranks[2].seat.arrive(0);
  board.parts.begin(round, {{.number = 0, .members = 2, .seats = {0, 2}, .header = {}},
                            {.number = 1, .members = 3, .seats = {1}, .header = {}}});
  board.run();
  EXPECT_EQ(board.joined, (std::vector<std::pair<int, std::uint64_t>>{{0, 1}, {2, 2}, {1, 1}}));
  ASSERT_EQ(board.ready.size(), 2u);
  const GroupPart whole = board.ready[0], alone = board.ready[1];
  EXPECT_TRUE(whole.whole());
  EXPECT_TRUE(alone.alone());
  EXPECT_EQ(board.sum(whole), 1 + 8);
  EXPECT_EQ(board.sum(alone), 2);
  EXPECT_EQ(board.parts.summed(alone, 0).data(), board.ranks.memory().model(1, board.ranks.stands(1), 0).data())
      << "the model is sent from where it lies";
  EXPECT_EQ(board.ranks.pins(), 1) << "of the model that is sent";

  const RoundHeader& header = whole.header;
  EXPECT_EQ(header.ranks(), 6);
  EXPECT_TRUE(header.arrived.contains(4)) << "ranks are named by their numbers in the job";
  EXPECT_EQ(header.arrived.count(), 1);
  board.ranks.memory().enter_result(whole.result, 0, 2, header);
  board.parts.hand_over(0, whole);
  board.parts.release(whole);
  EXPECT_EQ(board.ranks.newest(0), 1u);
  EXPECT_EQ(board.ranks.newest(1), 0u);
  EXPECT_EQ(board.ranks.newest(2), 1u);
  EXPECT_EQ(board.ranks.sum_at(2), 9);
  board.parts.release(alone);
  EXPECT_EQ(board.ranks.pins(), 0);
}

TEST(GroupParts, ASumOfAGroupThatSpansBoardsLiesBesideItsResult) {
  Board board;
  for (int seat = 0; seat < 3; ++seat) board.ranks.publish(seat, 1 << seat);
  for (Round round = 0; round < 10; ++round) {
    board.parts.begin(round, {{.number = 0, .members = 6, .seats = {0, 1, 2}, .header = {}}});
    board.run();
    const GroupPart part = board.ready.back();
    EXPECT_EQ(board.sum(part), 7);
    EXPECT_NE(part.sum, part.result);
    EXPECT_EQ(board.ranks.pins(), 0) << "the models are in the sum";
    board.parts.hand_over(round, part);
    board.parts.release(part);
    EXPECT_EQ(board.ranks.uses(), 3u) << "each member's newest";
  }
}

TEST(GroupParts, KeepsTheOwnModelUntilThereIsANewerResult) {
  Board board(true);
  for (int seat = 0; seat < 3; ++seat) board.ranks.publish(seat, 1 << seat);
  for (Round round = 0; round < 10; ++round) {
    board.parts.begin(round, {{.number = 0, .members = 2, .seats = {0}, .header = {}},
                              {.number = 1, .members = 4, .seats = {1, 2}, .header = {}}});
    board.run();
    for (const GroupPart& part : board.ready) {
      board.parts.hand_over(round, part);
      board.parts.release(part);
    }
    board.ready.clear();
    EXPECT_EQ(board.ranks.pins(), 3);
  }
}

TEST(GroupParts, TakesTheModelThatStandsWhenItIsPinned) {
  Board board(false, true);
  const Round round = 0;
  for (int seat = 0; seat < 3; ++seat) board.ranks.publish(seat, 1 << seat);
  board.parts.begin(round, {{.number = 0, .members = 3, .seats = {0, 1, 2}, .header = {}}});
  board.parts.step();  // claims a result
  board.parts.step();  // reads the word of seat 0
  board.ranks.publish(0, 64);
  board.run();
  EXPECT_EQ(board.joined.front(), (std::pair<int, std::uint64_t>{0, 2}));
  EXPECT_EQ(board.sum(board.ready[0]), 64 + 2 + 4);
  EXPECT_EQ(board.ranks.pins(), 0);
}

}  // namespace
}  // namespace stretto
