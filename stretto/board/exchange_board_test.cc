#include "stretto/board/exchange_board.h"

#include <gtest/gtest.h>

#include <thread>

#include "stretto/board/testing/ranks_of.h"
#include "stretto/board/testing/test_support.h"

namespace stretto {
namespace {

/// Several rounds, the ranks' steps in an order that the seed draws; odd ranks sum where their input lies.
void expect_fixed_tree_in_chunks(const ExchangeBoard::Shape& shape, int ranks, std::uint64_t seed, int rounds = 3) {
  SCOPED_TRACE(testing::Message() << shape.count << " " << name_of(shape.type) << " by " << name_of(shape.op)
                                  << ", chunks of " << shape.chunk_bytes << ", " << ranks << " ranks, seed " << seed);
  Random random(seed);
  const auto size = static_cast<std::size_t>(ranks);
  RanksOf<ExchangeBoard> all(shape, ranks);
  std::vector<std::vector<std::optional<Bytes>>> inputs(static_cast<std::size_t>(rounds));
  std::vector<Bytes> expected;
  for (auto& round : inputs) {
    for (int rank = 0; rank < ranks; ++rank) round.push_back(random_numbers(random, shape.type, shape.op, shape.count));
    expected.push_back(*by_fixed_tree(shape.type, shape.op, round));
  }
  std::vector<int> arrived(size);
  std::vector<Bytes> mine(size), sum(size, Bytes(shape.bytes()));
  for (int done = 0; done < ranks;) {
    const int rank = static_cast<int>(random.below(size));
    const auto at = static_cast<std::size_t>(rank);
    if (arrived[at] > rounds) continue;
    if (!all[rank].complete()) {
      if (random.chance(0.9)) all[rank].step();
      continue;
    }
    ASSERT_FALSE(all[rank].step());
    if (arrived[at] > 0) {
      const auto round = static_cast<std::size_t>(arrived[at]) - 1;
      ASSERT_EQ(rank % 2 == 1 ? mine[at] : sum[at], expected[round]) << "rank " << rank;
      if (rank % 2 == 0) {
        ASSERT_EQ(mine[at], *inputs[round][at]) << "the input is only read";
      }
    }
    if (arrived[at]++ == rounds) {
      ++done;
      continue;
    }
    mine[at] = *inputs[static_cast<std::size_t>(arrived[at]) - 1][at];
    all[rank].arrive(mine[at].data(), rank % 2 == 1 ? mine[at].data() : sum[at].data());
  }
}

TEST(ExchangeBoard, SumsByTheFixedTreeWhateverTheOrderOfSteps) {
  std::uint64_t seed = 0;
  for (const auto type : {DataType::float32, DataType::float64, DataType::int32, DataType::int64, DataType::bfloat16,
                          DataType::float16}) {
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 33}) {
      // 0 … 56 bytes travel in the line that says that they are there.
      for (const std::uint64_t count : {0, 1, 7, 28, 77, 500}) {
        expect_fixed_tree_in_chunks({.type = type, .count = count, .chunk_bytes = 64}, ranks, ++seed);
      }
      expect_fixed_tree_in_chunks({.type = type, .count = 1001}, ranks, ++seed);
    }
  }
}

TEST(ExchangeBoard, TakesMinimaAndMaximaOfZerosAndNaNInTheOrderOfRanks) {
  std::uint64_t seed = 1000;
  for (const auto type : {DataType::float32, DataType::float64, DataType::bfloat16, DataType::float16}) {
    for (const auto op : {ReduceOp::min, ReduceOp::max}) {
      for (const int ranks : {2, 3, 5, 8, 33}) {
        expect_fixed_tree_in_chunks({.type = type, .count = 99, .op = op, .chunk_bytes = 128}, ranks, ++seed);
      }
    }
  }
}

TEST(ExchangeBoard, SumsWhatIsLargerThanTheCache) {
  expect_fixed_tree_in_chunks({.type = DataType::float32, .count = (4u << 20) + 5}, 2, 1, 1);
}

TEST(ExchangeBoard, TakesTheSameMemoryHoweverLargeTheBuffersAre) {
  const std::uint64_t one_chunk = ExchangeBoard::bytes_needed({.count = 8192, .chunk_bytes = 32 << 10}, 4);
  EXPECT_EQ(ExchangeBoard::bytes_needed({.count = 100 << 20, .chunk_bytes = 32 << 10}, 4), one_chunk);
  EXPECT_EQ((ExchangeBoard::Shape{.count = 0, .chunk_bytes = 64}.chunks()), 1u);
  EXPECT_EQ((ExchangeBoard::Shape{.count = 16, .chunk_bytes = 64}.chunks()), 1u);
  EXPECT_EQ((ExchangeBoard::Shape{.count = 17, .chunk_bytes = 64}.chunks()), 2u);
}

TEST(ExchangeBoard, KnowsWhoHasComeAndNeedsNoStepOfThem) {
  RanksOf<ExchangeBoard> all({.type = DataType::int32, .count = 1}, 3);
  std::int32_t in[3], out[3];
  const auto arrive = [&](int rank) {
    all[rank].arrive(reinterpret_cast<const std::byte*>(&in[rank]), reinterpret_cast<std::byte*>(&out[rank]));
  };
  for (std::int32_t round = 0; round < 9; ++round) {
    for (int rank = 0; rank < 3; ++rank) in[rank] = 10 * rank + round;
    arrive(0);
    EXPECT_TRUE(all[0].has_come(0));
    EXPECT_FALSE(all[0].has_come(1));
    arrive(2);
    EXPECT_FALSE(all[0].step());
    EXPECT_FALSE(all[0].has_come(1));
    EXPECT_TRUE(all[0].has_come(2));
    arrive(1);
    EXPECT_TRUE(all[0].has_come(1));
    // What has been shown at arrival is all there is: ranks 1 and 2 may do something else.
    EXPECT_TRUE(all[0].step());
    EXPECT_TRUE(all[0].complete());
    EXPECT_EQ(out[0], 30 + 3 * round);
    for (int rank = 1; rank < 3; ++rank) {
      EXPECT_TRUE(all[rank].step());
      EXPECT_TRUE(all[rank].complete());
      EXPECT_EQ(out[rank], 30 + 3 * round);
    }
  }
  arrive(0);
  EXPECT_DEATH(arrive(0), "before the last round is complete");
}

TEST(ExchangeBoard, NobodyShowsMoreThanTheOthersLeaveRoomFor) {
  const ExchangeBoard::Shape shape{.type = DataType::int64, .count = 80, .chunk_bytes = 64};  // ten chunks
  RanksOf<ExchangeBoard> all(shape, 2);
  std::vector<std::int64_t> in[2] = {std::vector<std::int64_t>(80, 3), std::vector<std::int64_t>(80, 4)};
  std::vector<std::int64_t> out[2] = {std::vector<std::int64_t>(80), std::vector<std::int64_t>(80)};
  for (int rank = 0; rank < 2; ++rank) {
    all[rank].arrive(reinterpret_cast<const std::byte*>(in[rank].data()),
                     reinterpret_cast<std::byte*>(out[rank].data()));
  }
  // Rank 1 has stopped after its first chunk: rank 0 sums that one, and no more.
  while (all[0].step()) {
  }
  EXPECT_EQ(out[0][7], 7);
  EXPECT_EQ(out[0][8], 0);
  EXPECT_FALSE(all[0].complete());
  EXPECT_FALSE(all[0].has_come(1)) << "of the chunk that is waited for";
  while (!all[0].complete() || !all[1].complete()) {
    all[1].step();
    all[0].step();
  }
  EXPECT_EQ(out[0], std::vector<std::int64_t>(80, 7));
  EXPECT_EQ(out[1], out[0]);
}

/// Sleeps as a rank does. A sleep that nothing ends is a lost wake-up.
void wait(ExchangeBoard& board, Doorbell bell, int rank) {
  while (!board.complete()) {
    if (board.step()) continue;
    const std::uint32_t seen = bell.rings();
    const FutexWait signal = look_at(board.sleepers().signal());
    board.sleepers().go_in(rank);
    if (!board.step()) {
      ASSERT_TRUE(sleeps_well(bell, seen, Doorbell::Sleeper::application, signal)) << "nobody has woken rank " << rank;
    }
    board.sleepers().leave(rank);
  }
}

TEST(ExchangeBoard, ThreadsAsRanksThatSleep) {
  for (const int ranks : {2, 4, 7}) {
    const ExchangeBoard::Shape shape{.type = DataType::int64, .count = 50, .chunk_bytes = 64};
    const ZeroMemory memory(ExchangeBoard::bytes_needed(shape, ranks));
    Doorbells bells(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        ExchangeBoard board(memory.bytes(), shape, rank, ranks, [&](int r) { bells.ring(r); });
        std::vector<std::int64_t> buffer(50);
        auto* bytes = reinterpret_cast<std::byte*>(buffer.data());
        for (std::int64_t round = 0; round < 3000; ++round) {
          for (int i = 0; i < 50; ++i) buffer[static_cast<std::size_t>(i)] = (round + 1) * (rank + 1) + i;
          board.arrive(bytes, bytes);
          wait(board, bells.at(rank), rank);
          if (testing::Test::HasFatalFailure()) return;
          for (int i = 0; i < 50; ++i) {
            ASSERT_EQ(buffer[static_cast<std::size_t>(i)], (round + 1) * ranks * (ranks + 1) / 2 + ranks * i);
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace stretto
