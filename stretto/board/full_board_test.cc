#include "stretto/board/full_board.h"

#include <gtest/gtest.h>

#include <thread>

#include "stretto/board/testing/ranks_of.h"
#include "stretto/board/testing/test_support.h"

namespace stretto {
namespace {

Bytes result_of(const FullBoard& board, const FullBoard::Shape& shape) {
  return Bytes(board.result(), board.result() + shape.bytes());
}

/// Several rounds, the ranks' steps in an order that the seed draws. A rank looks at a result when it goes on.
void expect_fixed_tree_in_pieces(const FullBoard::Shape& shape, int ranks, std::uint64_t seed, int rounds = 3) {
  SCOPED_TRACE(testing::Message() << shape.count << " " << name_of(shape.type) << " by " << name_of(shape.op)
                                  << ", pieces of " << shape.piece_bytes << ", " << ranks << " ranks, seed " << seed);
  Random random(seed);
  std::vector<std::vector<std::optional<Bytes>>> inputs(static_cast<std::size_t>(rounds));
  std::vector<Bytes> expected;
  for (auto& round : inputs) {
    for (int rank = 0; rank < ranks; ++rank) round.push_back(random_numbers(random, shape.type, shape.op, shape.count));
    expected.push_back(*by_fixed_tree(shape.type, shape.op, round));
  }
  RanksOf<FullBoard> all(shape, ranks);
  std::vector<int> arrived(static_cast<std::size_t>(ranks));
  std::uint64_t pieces = 0;
  for (int done = 0; done < ranks;) {
    const int rank = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
    int& mine = arrived[static_cast<std::size_t>(rank)];
    if (mine > rounds) continue;
    if (!all[rank].complete()) {
      if (random.chance(0.9)) pieces += all[rank].step() ? 1 : 0;
      continue;
    }
    ASSERT_FALSE(all[rank].step());
    if (mine > 0) {
      ASSERT_EQ(result_of(all[rank], shape), expected[static_cast<std::size_t>(mine) - 1]);
    }
    if (mine == rounds) {
      ++mine, ++done;
      continue;
    }
    const Bytes& input = *inputs[static_cast<std::size_t>(mine)][static_cast<std::size_t>(rank)];
    if (!input.empty()) std::memcpy(all[rank].input(), input.data(), input.size());
    all[rank].arrive();
    ++mine;
  }
  EXPECT_EQ(pieces, shape.pieces() * static_cast<std::uint64_t>(rounds)) << "each piece is summed once";
}

TEST(FullBoard, SumsByTheFixedTreeWhateverTheOrderOfSteps) {
  std::uint64_t seed = 0;
  for (const auto type : {DataType::float32, DataType::float64, DataType::int32, DataType::int64, DataType::bfloat16,
                          DataType::float16}) {
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 33}) {
      for (const std::uint64_t count : {0, 1, 77, 500}) {
        expect_fixed_tree_in_pieces({.type = type, .count = count, .piece_bytes = 64}, ranks, ++seed);
      }
      expect_fixed_tree_in_pieces({.type = type, .count = 1001}, ranks, ++seed);
    }
  }
}

TEST(FullBoard, TakesMinimaAndMaximaOfZerosAndNaNInTheOrderOfRanks) {
  std::uint64_t seed = 1000;
  for (const auto type : {DataType::float32, DataType::float64, DataType::bfloat16, DataType::float16}) {
    for (const auto op : {ReduceOp::min, ReduceOp::max}) {
      for (const int ranks : {2, 3, 5, 8, 33}) {
        expect_fixed_tree_in_pieces({.type = type, .count = 99, .op = op, .piece_bytes = 128}, ranks, ++seed);
      }
    }
  }
}

TEST(FullBoard, SumsWhatIsLargerThanTheCache) {
  expect_fixed_tree_in_pieces({.type = DataType::float32, .count = (4u << 20) + 5, .piece_bytes = 256 << 10}, 2, 1, 1);
}

TEST(FullBoard, KnowsItsPieces) {
  using Shape = FullBoard::Shape;
  EXPECT_EQ((Shape{.count = 0, .piece_bytes = 64}.pieces()), 1u);
  EXPECT_EQ((Shape{.count = 16, .piece_bytes = 64}.pieces()), 1u);
  EXPECT_EQ((Shape{.count = 17, .piece_bytes = 64}.pieces()), 2u);
}

TEST(FullBoard, ARankThatStopsWithoutAPieceHindersNobody) {
  RanksOf<FullBoard> all({.type = DataType::int64, .count = 80, .piece_bytes = 64}, 4);
  for (int round = 0; round < 3; ++round) {
    for (int rank = 0; rank < 4; ++rank) {
      for (int i = 0; i < 80; ++i) reinterpret_cast<std::int64_t*>(all[rank].input())[i] = 1000 * rank + i + round;
      all[rank].arrive();
    }
    // Rank 2 does nothing, rank 1 two pieces.
    EXPECT_TRUE(all[1].step());
    EXPECT_TRUE(all[1].step());
    while (all[3].step()) {
    }
    for (int rank = 0; rank < 4; ++rank) {
      ASSERT_TRUE(all[rank].complete());
      EXPECT_FALSE(all[rank].step());
      for (int i = 0; i < 80; ++i) {
        ASSERT_EQ(reinterpret_cast<const std::int64_t*>(all[rank].result())[i], 6000 + 4 * (i + round));
      }
    }
  }
}

TEST(FullBoard, WaitsForTheLastAndKnowsWhoHasCome) {
  RanksOf<FullBoard> all({.type = DataType::int32, .count = 3}, 3);
  EXPECT_TRUE(all[0].complete()) << "no round has begun";
  for (int round = 0; round < 2; ++round) {
    all[0].arrive();
    EXPECT_FALSE(all[0].complete());
    EXPECT_TRUE(all[0].has_come(0));
    EXPECT_FALSE(all[0].has_come(1));
    all[2].arrive();
    EXPECT_FALSE(all[0].step());
    EXPECT_FALSE(all[0].has_come(1));
    EXPECT_TRUE(all[0].has_come(2));
    EXPECT_TRUE(all[1].complete()) << "of the round before";
    all[1].arrive();
    EXPECT_TRUE(all[0].has_come(1));
    EXPECT_TRUE(all[0].step());
    for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(all[rank].complete());
  }
  EXPECT_DEATH((all[0].arrive(), all[0].arrive()), "before the last one is complete");
}

TEST(FullBoard, TheLastToComeWakesHelpersAndTheLastPieceEverybody) {
  RanksOf<FullBoard> all({.type = DataType::int32, .count = 64, .piece_bytes = 64, .helpers = 2}, 5);
  for (int rank = 0; rank < 4; ++rank) {
    all[rank].arrive();
    all[rank].sleepers().go_in(rank);
  }
  EXPECT_EQ(all.rings, (std::vector<int>{0, 0, 0, 0, 0}));
  all[4].arrive();
  EXPECT_EQ(all.rings, (std::vector<int>{1, 1, 0, 0, 0})) << "two helpers";
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(all[4].step());
  all[0].sleepers().go_in(0);
  EXPECT_EQ(all.rings, (std::vector<int>{1, 1, 0, 0, 0}));
  EXPECT_TRUE(all[4].step());
  if (const auto* signal = all[0].sleepers().signal()) {
    EXPECT_EQ(*signal, 1u) << "all that sleep, with one call";
    EXPECT_EQ(all.rings, (std::vector<int>{1, 1, 0, 0, 0}));
  } else {
    EXPECT_EQ(all.rings, (std::vector<int>{2, 1, 1, 1, 0})) << "who sleeps; rank 1 had been woken";
  }
  for (int rank = 0; rank < 5; ++rank) EXPECT_FALSE(all[0].sleepers().contains(rank));
}

Bytes doubled(const Bytes& sum) {
  Bytes out = sum;
  reduce(DataType::float32, ReduceOp::sum, out.data(), out.data(), sum.data(), sum.size() / sizeof(float));
  return out;
}

TEST(FullBoard, UpwardARoundIsCompleteWhenRankZeroSaysSo) {
  for (const int ranks : {1, 2, 3, 8}) {
    Random random(static_cast<std::uint64_t>(ranks));
    RanksOf<FullBoard> all({.type = DataType::float32, .count = 100, .piece_bytes = 64, .upward = true}, ranks);
    for (int round = 0; round < 3; ++round) {
      const Bytes before = result_of(all[0], all.shape);
      std::vector<std::optional<Bytes>> inputs;
      for (int rank = 0; rank < ranks; ++rank) {
        inputs.emplace_back(random_numbers(random, DataType::float32, ReduceOp::sum, 100));
        std::memcpy(all[rank].input(), inputs.back()->data(), inputs.back()->size());
        EXPECT_TRUE(all[rank].complete());
        all[rank].arrive();
        EXPECT_FALSE(all[rank].has_sum());
      }
      while (all[ranks - 1].step()) {
      }
      EXPECT_TRUE(all[0].has_sum());
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_FALSE(all[rank].complete());
        EXPECT_EQ(all[rank].rounds(), static_cast<std::uint64_t>(round) + 1);
        EXPECT_TRUE(all[0].has_come(rank, all[rank].rounds()));
        EXPECT_FALSE(all[0].has_come(rank, all[rank].rounds() + 1));
        EXPECT_TRUE(result_of(all[rank], all.shape) == before) << "until another is published";
      }
      const Bytes sum = *by_fixed_tree(DataType::float32, ReduceOp::sum, inputs);
      EXPECT_TRUE(Bytes(all[0].sum(), all[0].sum() + sum.size()) == sum);
      const Bytes result = doubled(sum);
      std::memcpy(all[0].outcome(), result.data(), result.size());
      all[0].publish();
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_TRUE(all[rank].complete());
        EXPECT_FALSE(all[rank].step());
        EXPECT_TRUE(result_of(all[rank], all.shape) == result);
      }
    }
    EXPECT_DEATH(all[0].publish(), "rank 0 publishes round 3");
  }
}

TEST(FullBoard, UpwardTheLastPieceWakesRankZeroAndItsWordEverybody) {
  RanksOf<FullBoard> all({.type = DataType::int32, .count = 3, .upward = true}, 3);
  for (int rank = 0; rank < 3; ++rank) {
    all[rank].arrive();
    if (rank < 2) all[rank].sleepers().go_in(rank);
  }
  EXPECT_TRUE(all[2].step());
  EXPECT_EQ(all.rings, (std::vector<int>{1, 0, 0}));
  EXPECT_FALSE(all[0].sleepers().contains(0));
  EXPECT_TRUE(all[0].sleepers().contains(1));
  all[0].publish();
  EXPECT_FALSE(all[0].sleepers().contains(1));
}

/// Rank 0's part where the sum goes upward: here the result is the sum.
bool passes_on(FullBoard& board, int rank) {
  const bool upward = board.sum() != board.result();
  if (!upward || rank != 0 || board.complete() || !board.has_sum()) return false;
  std::memcpy(board.outcome(), board.sum(), 50 * sizeof(std::int64_t));
  board.publish();
  return true;
}

/// Sleeps as a rank does. A sleep that nothing ends is a lost wake-up.
void wait(FullBoard& board, Doorbell bell, int rank) {
  while (!board.complete()) {
    if (board.step() || passes_on(board, rank)) continue;
    const std::uint32_t seen = bell.rings();
    const FutexWait signal = look_at(board.sleepers().signal());
    board.sleepers().go_in(rank);
    if (!board.complete() && !board.step() && !passes_on(board, rank)) {
      ASSERT_TRUE(sleeps_well(bell, seen, Doorbell::Sleeper::application, signal)) << "nobody has woken rank " << rank;
    }
    board.sleepers().leave(rank);
  }
}

void expect_no_lost_wake_up(bool upward) {
  for (const int ranks : {2, 4, 7}) {
    const FullBoard::Shape shape{.type = DataType::int64, .count = 50, .piece_bytes = 64, .upward = upward};
    const ZeroMemory memory(FullBoard::bytes_needed(shape, ranks));
    Doorbells bells(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        FullBoard board(memory.bytes(), shape, rank, ranks, [&](int r) { bells.ring(r); });
        for (std::int64_t round = 0; round < 5000; ++round) {
          auto* input = reinterpret_cast<std::int64_t*>(board.input());
          for (int i = 0; i < 50; ++i) input[i] = (round + 1) * (rank + 1) + i;
          board.arrive();
          wait(board, bells.at(rank), rank);
          if (testing::Test::HasFatalFailure()) return;
          const auto* sum = reinterpret_cast<const std::int64_t*>(board.result());
          for (int i = 0; i < 50; ++i) ASSERT_EQ(sum[i], (round + 1) * ranks * (ranks + 1) / 2 + ranks * i);
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
}

TEST(FullBoard, ThreadsAsRanksThatSleep) {
  expect_no_lost_wake_up(false);
}

TEST(FullBoard, UpwardThreadsAsRanksThatSleep) {
  expect_no_lost_wake_up(true);
}

}  // namespace
}  // namespace stretto
