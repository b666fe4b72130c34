// A board step by step; partial_board_random_test.cc and partial_board_live_test.cc run many of them.

#include "stretto/board/partial_board.h"

#include <gtest/gtest.h>

#include "stretto/board/open_round.h"
#include "stretto/board/testing/board_ranks.h"

namespace stretto {
namespace {

TEST(PartialBoard, SealsEverySeatOfARoundEmptyOnesToo) {
  Ranks all(small(), 3, 1);
  all.deposit(2, 7);
  all.arrive(2);
  all.run(0);
  EXPECT_EQ(all[0].board.complete(), 1u);
  EXPECT_EQ(all.result(0), 7);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(all.seat(rank), SeatWord::open(0, false).as_sealed()) << "what comes now is of round 1";
  }
  all.deposit(1, 5);
  EXPECT_EQ(all.seat(1).round(), 1u);
  all[1].seat.arrive(0, 1);  // too late: nothing happens
  EXPECT_FALSE(all.seat(1).arrived());
  ASSERT_EQ(all[0].rule.all_taken().size(), 3u) << "each seat once";
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(all[0].rule.all_taken()[static_cast<std::size_t>(rank)].rank, rank);
    EXPECT_EQ(all[0].rule.all_taken()[static_cast<std::size_t>(rank)].any, rank == 2);
  }
}

/// The round begins or goes on after each number of steps of a deposit, and the deposit after each of the round's.
TEST(PartialBoard, ADepositMadeWhileItsSeatIsBeingSealedGoesIntoOneRound) {
  int in_first = 0, in_second = 0;
  for (const int before : {0, 1, 2}) {  // deposits that are pending already
    for (int deposit_steps = 0; deposit_steps < 4; ++deposit_steps) {
      for (int board_steps = 0; board_steps < 60; ++board_steps) {
        Ranks all(small(8), 2, 1, true);
        for (int i = 0; i < before; ++i) all.deposit(0, 1);
        all.arrive(1);
        const int set = all.fill(0, 100);
        PartialSeat::Deposit deposit(all[0].seat, set);
        bool made = false;
        for (int i = 0; i < deposit_steps && !made; ++i) made = deposit.step();
        for (int i = 0; i < board_steps; ++i) all[1].board.step(true);
        while (!made) made = deposit.step();
        while (all[1].board.complete() == 0) all[1].board.step(true);
        all[1].seat.hand_over(1);
        const bool first = !all[0].seat.pending();
        all.arrive(1);
        while (all[1].board.complete() == 1) all[1].board.step(true);
        const auto brought = [&](Round round) { return all[1].board.header(round).empty() ? 0 : all.result(round); };
        ASSERT_EQ(brought(0), before + (first ? 100 : 0)) << before << ' ' << deposit_steps << ' ' << board_steps;
        ASSERT_EQ(brought(1), first ? 0 : 100) << before << ' ' << deposit_steps << ' ' << board_steps;
        (first ? in_first : in_second) += 1;
      }
    }
  }
  EXPECT_GT(in_first, 50);
  EXPECT_GT(in_second, 50);
}

TEST(PartialBoard, ARoundTooFarAheadIsHeldUntilTheLastRankMovesOn) {
  Ranks all(small(), 2, 1);  // W = 2
  for (const Round round : {0u, 1u}) {
    all.deposit(0, static_cast<std::int64_t>(round) + 1);
    all.arrive(0);
    all.run(0);
    EXPECT_EQ(all[0].board.complete(), round + 1);
    EXPECT_FALSE(all[0].seat.hand_over(round + 1)) << "nothing waits for it";
  }
  all.deposit(0, 3);
  all.arrive(0);
  all.run(0);
  all.run(1);
  EXPECT_EQ(all[0].board.complete(), 2u) << "rank 1 has been handed nothing";
  EXPECT_TRUE(all[0].board.held());
  EXPECT_FALSE(all[0].board.in_flight());
  EXPECT_TRUE(all[1].seat.hand_over(1));
  all.run(1);
  EXPECT_EQ(all[0].board.complete(), 3u);
  EXPECT_FALSE(all[0].board.held());
  EXPECT_EQ(all.result(1), 2) << "still there for rank 1";
  EXPECT_EQ(all.result(2), 3);
}

/// An engine that was put to sleep before it read a record, while its application and all others went on.
TEST(PartialBoard, AHeaderIsKeptForAsLongAsItsResultAndOneRoundMore) {
  Ranks all(small(), 2, 1);  // W = 2
  for (Round round = 0; round < 6; ++round) {
    all.deposit(0, 1, {.batches = round + 1, .oldest_base = round});
    all.arrive(0);
    all.run(0);
    ASSERT_EQ(all[1].board.complete(), round + 1);
    for (int rank = 0; rank < 2; ++rank) all[rank].seat.hand_over(round + 1);
    for (Round before = 0; before <= round; ++before) {
      RoundHeader header;
      const bool kept = all[1].board.read_kept_header(before, header);
      ASSERT_EQ(kept, round <= before + 2) << before << " after " << round;
      if (kept) {
        EXPECT_EQ(header.batches, before + 1);
      }
    }
  }
  EXPECT_DEATH((void)all[0].board.header(2), "the header of round 2 is gone in round 6");
}

TEST(PartialBoard, BucketsAreSummedAsTheyAreHandedOverByOneRankAlone) {
  for (const int steps : {0, 1}) {
    Ranks all({.buckets = {{DataType::int64, 20}, {DataType::int64, 9}, {DataType::int64, 1}}, .piece_bytes = 64}, 2,
              2);
    for (Round round = 0; round < 3; ++round) {  // a rank begins each where it has ended the last
      int sets[2];
      for (int rank = 0; rank < 2; ++rank) {
        sets[rank] = all.deposit(rank, rank + 1);
        all.memory().set(rank, sets[rank]).ready = 0;
        all.arrive(rank);
      }
      const auto ready = [&](int rank, int buckets) { all.memory().set(rank, sets[rank]).ready = buckets; };
      const auto done = [&] { return all.memory().words().done - 6 * round; };
      all.run(steps);
      EXPECT_TRUE(all[steps].board.in_flight());
      EXPECT_EQ(done(), 0u);
      ready(0, 3);
      ready(1, 1);
      all.run(steps);
      EXPECT_EQ(done(), 3u);
      EXPECT_EQ(all.result(round, 0), 3);
      ready(1, 2);
      all.run(steps);
      EXPECT_EQ(done(), 5u);
      EXPECT_EQ(all.result(round, 1), 3);
      EXPECT_EQ(all[0].board.complete(), round);
      ready(1, 3);
      all.run(steps);
      EXPECT_EQ(all[0].board.complete(), round + 1);
      EXPECT_EQ(all.result(round, 2), 3);
      for (int rank = 0; rank < 2; ++rank) all[rank].seat.hand_over(round + 1);
    }
  }
}

TEST(PartialBoard, SumsLargeContributionsBeforeTheRoundStartsInOrderOfArrivalAlone) {
  for (const auto order : {SumOrder::arrival, SumOrder::fixed}) {
    auto shape = small(20'000);
    shape.order = order;
    shape.piece_bytes = 16 << 10;
    Ranks all(shape, 6, 6);
    for (const int rank : {5, 1, 3, 0}) all.deposit(rank, 1 << rank);
    all.arrive(5);
    all.run(5, false);
    EXPECT_EQ(PlanWord(all.memory().words().plan).sources(), 0u) << "nobody has time for it";
    all.run(5, true);
    EXPECT_EQ(PlanWord(all.memory().words().plan).sources(), order == SumOrder::arrival ? 4u : 0u);
    EXPECT_FALSE(PlanWord(all.memory().words().plan).final());
    if (order == SumOrder::arrival) {
      EXPECT_EQ(all.result(0), 32 + 2 + 8 + 1);
    }
    // A second deposit of a rank whose first one has been summed, and those that were missing.
    all.deposit(3, 1 << 10);
    for (const int rank : {2, 4}) all.deposit(rank, 1 << rank);
    for (int rank = 0; rank < 5; ++rank) all.arrive(rank);
    all.run(2);
    EXPECT_EQ(all[0].board.complete(), 1u);
    EXPECT_EQ(all.result(0), 63 + (1 << 10));
  }
}

TEST(PartialBoard, SumsASecondDepositAheadOnceItsRankWaits) {
  auto shape = small(20'000);
  shape.order = SumOrder::arrival;
  shape.piece_bytes = 16 << 10;
  Ranks all(shape, 6, 6);
  for (int rank = 0; rank < 4; ++rank) all.deposit(rank, 1 << rank);
  all.arrive(5);
  all.run(5);
  EXPECT_EQ(PlanWord(all.memory().words().plan).sources(), 4u);
  for (int rank = 0; rank < 4; ++rank) all.deposit(rank, 1 << (rank + 8));
  all.arrive(4);
  all.run(5);
  EXPECT_EQ(PlanWord(all.memory().words().plan).sources(), 4u) << "a third deposit would be added to the second";
  for (int rank = 0; rank < 4; ++rank) all.arrive(rank);
  all.run(5);
  EXPECT_EQ(all[0].board.complete(), 1u);
  EXPECT_EQ(all.result(0), 0xf0f);

  // The same, but one of those that have deposited twice has not come when the sum is made ahead.
  for (int rank = 0; rank < 6; ++rank) all[rank].seat.hand_over(1);
  for (int rank = 0; rank < 5; ++rank) all.deposit(rank, 1 << rank);
  for (int rank = 0; rank < 5; ++rank) all.deposit(rank, 1 << (rank + 8));
  for (int rank = 0; rank < 4; ++rank) all.arrive(rank);
  all.run(3);
  EXPECT_EQ(PlanWord(all.memory().words().plan).sources(), 9u);
  EXPECT_EQ(all.result(1), 0xf1f);
  all.deposit(4, 1 << 16);
  for (int rank = 4; rank < 6; ++rank) all.arrive(rank);
  all.run(0);
  EXPECT_EQ(all[0].board.complete(), 2u);
  EXPECT_EQ(all.result(1), 0x11f1f);
}

TEST(PartialBoard, TheHeaderSaysWhoBroughtWhat) {
  Ranks all(small(), 4, 2);
  all.arrive(0);
  all.deposit(1, 1, {.batches = 1, .samples = 32, .oldest_base = 0, .sum_of_bases = 0, .times = {.computed = 0.5f}});
  all.arrive(1);
  all.run(0);
  for (int rank = 0; rank < 4; ++rank) all[rank].seat.hand_over(1);
  all.deposit(0, 1, {.batches = 2, .samples = 64, .oldest_base = 1, .sum_of_bases = 2, .times = {.computed = 1}});
  all.deposit(2, 1, {.batches = 1, .samples = 8, .oldest_base = 0, .sum_of_bases = 0, .times = {.computed = 2}});
  all.deposit(2, 1, {.batches = 1, .samples = 9, .oldest_base = 1, .sum_of_bases = 1, .times = {.computed = 4}});
  all.arrive(2);
  all[3].seat.drain();
  all.run(1);

  RoundHeader first(4);
  first.arrived.insert(0);
  first.arrived.insert(1);
  first.fresh.insert(1);
  first.batches = 1;
  first.samples = 32;
  first.oldest_base = 0;
  first.times = {{.rank = 1, .computed = 0.5f}};
  EXPECT_EQ(all[3].board.header(0), first);
  RoundHeader second(4);
  second.arrived.insert(2);
  second.drained.insert(3);
  second.fresh.insert(0);
  second.stale.insert(2);
  second.batches = 4;
  second.samples = 81;
  second.oldest_base = 0;
  second.sum_of_bases = 3;
  second.times = {{.rank = 0, .computed = 1}, {.rank = 2, .computed = 6}};
  EXPECT_EQ(all[0].board.header(1), second);

  const auto& record = all.memory().record(1);
  EXPECT_EQ(record.sealed_at, 77);
  EXPECT_EQ(record.rule[0], 1u);
  EXPECT_EQ(record.rule[1], 4u);
  EXPECT_FALSE(record.last);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(all.memory().arrivals(1)[static_cast<std::size_t>(rank)], rank == 2 ? 502 : 0);
  }
}

TEST(PartialBoard, TheRoundThatShowsAllDrainedIsTheLastAndTakesWhatIsPending) {
  Ranks all(small(), 2, 2);
  all.deposit(1, 9);
  all[0].seat.drain();
  all.run(0);
  EXPECT_EQ(all[0].board.complete(), 0u) << "nobody waits";
  all[1].seat.drain();
  all.run(0);
  EXPECT_EQ(all[0].board.complete(), 1u);
  EXPECT_EQ(all.result(0), 9);
  EXPECT_TRUE(all.memory().record(0).last);
  EXPECT_TRUE(all[0].board.header(0).drained.all());
  all.run(1);
  EXPECT_EQ(all[0].board.complete(), 1u);
}

TEST(PartialBoard, WhoeverCompletesARoundWakesThoseThatWait) {
  Ranks all(small(), 3, 2);
  all.deposit(1, 9);
  all.arrive(1);
  EXPECT_TRUE(all[1].board.go_in());
  EXPECT_FALSE(all[1].board.go_in());
  EXPECT_TRUE(all[2].board.go_in());
  all[2].board.leave();
  EXPECT_FALSE(all[1].board.step(true));
  EXPECT_EQ(all.rings, (std::vector<int>{0, 0, 0}));
  all.arrive(0);
  all.run(0);
  if (const auto* signal = all[0].board.signal()) {
    EXPECT_EQ(*signal, 1u);
  } else {
    EXPECT_EQ(all.rings, (std::vector<int>{0, 1, 0}));
  }
  EXPECT_EQ(all[0].board.wake_one(), 0);
}

/// Some ranks bring nothing, some two deposits, which are added first.
TEST(PartialBoard, HasTheBitsOfTheFixedTreeInFixedOrder) {
  Random random(11);
  for (int i = 0; i < 400; ++i) {
    const int ranks = static_cast<int>(random.between(2, 9));
    const auto type = random.chance(0.5) ? DataType::float32 : DataType::bfloat16;
    const std::uint64_t count = random.between(1, 100);
    Ranks all({.buckets = {{type, count}}, .piece_bytes = 64}, ranks, 1);
    std::vector<std::optional<Bytes>> inputs(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      auto& input = inputs[static_cast<std::size_t>(rank)];
      for (std::uint64_t n = random.below(3); n > 0; --n) {
        const Bytes numbers = random_numbers(random, type, ReduceOp::sum, count);
        const int set = all[rank].seat.acquire();
        std::memcpy(all.memory().data(rank, set, 0).data(), numbers.data(), numbers.size());
        all.memory().set(rank, set).facts = {.batches = 1, .oldest_base = 0};
        all.memory().set(rank, set).ready = 1;
        PartialSeat::Deposit deposit(all[rank].seat, set);
        while (!deposit.step()) {
        }
        if (input) {
          reduce(type, ReduceOp::sum, input->data(), input->data(), numbers.data(), count);
        } else {
          input = numbers;
        }
      }
    }
    all.arrive(0);
    all.run(ranks - 1);
    ASSERT_EQ(all[0].board.complete(), 1u);
    const auto expected = by_fixed_tree(type, ReduceOp::sum, inputs);
    ASSERT_EQ(all[0].board.header(0).empty(), !expected);
    if (!expected) continue;
    const auto result = all.memory().result(0, 0);
    ASSERT_EQ(Bytes(result.begin(), result.end()), *expected) << "case " << i;
  }
}

// ---- one of several boards ----

}  // namespace
}  // namespace stretto
