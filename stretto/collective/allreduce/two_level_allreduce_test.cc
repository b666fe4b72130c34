// An Allreduce over several boards with a schedule between them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <bit>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>

#include "stretto/base/random.h"
#include "stretto/board/testing/test_support.h"
#include "stretto/collective/plain.h"
#include "stretto/collective/rounds/seating.h"
#include "stretto/collective/schedules/round_schedules.h"
#include "stretto/collective/testing/process_job.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/collective/testing/watchdog.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Through = AllreduceOptions::Through;

template <class T>
T to(int number) {
  if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(static_cast<float>(number));
  else if constexpr (std::is_same_v<T, Float16>)
    return to_float16(static_cast<float>(number));
  else
    return static_cast<T>(number);
}

/// Small enough for sums of eight to be exact in every type.
int number_of(int rank, std::uint64_t i, int round) {
  return static_cast<int>((static_cast<std::uint64_t>(rank) * 37 + i * 11 + static_cast<std::uint64_t>(round) * 5) %
                          31) -
         15;
}

template <class T>
std::vector<T> small_numbers(int rank, std::uint64_t count, int round) {
  std::vector<T> out(count);
  for (std::uint64_t i = 0; i < count; ++i) out[i] = to<T>(number_of(rank, i, round));
  return out;
}

template <class T>
std::vector<T> reduced(int ranks, std::uint64_t count, int round, ReduceOp op) {
  std::vector<T> out(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    int all = number_of(0, i, round);
    for (int rank = 1; rank < ranks; ++rank) {
      const int other = number_of(rank, i, round);
      if (op == ReduceOp::sum) all += other;
      if (op == ReduceOp::min) all = std::min(all, other);
      if (op == ReduceOp::max) all = std::max(all, other);
    }
    out[i] = to<T>(all);
  }
  return out;
}

/// Ranks, and seats at a board.
class Boards : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  int seats() const { return std::get<1>(GetParam()); }

  template <class T>
  void expect_sequential_sums() const {
    constexpr int kRounds = 2;
    struct Case {
      std::uint64_t count;
      ReduceOp op;
      std::vector<Bytes> expected;  // per round
    };
    std::vector<Case> cases;
    // Two pieces are 16 KiB; the last is reduced by halving between the boards.
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1001}, 20'000 / sizeof(T) + 3,
                                      kLargeBucketBytes / sizeof(T) + 7}) {
      for (const auto op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
        cases.push_back({count, op, {}});
        for (int round = 0; round < kRounds; ++round) {
          cases.back().expected.push_back(bytes_of<T>(reduced<T>(ranks(), count, round, op)));
        }
      }
    }
    run_thread_job(ranks(), [&](Engine& engine) {
      std::vector<std::unique_ptr<Allreduce>> all;
      for (const Case& c : cases) {
        all.push_back(
            std::make_unique<Allreduce>(engine, kDataTypeOf<T>, c.count, c.op, AllreduceOptions{.seats = seats()}));
      }
      EngineDriver driver(engine, {.progress_by = ProgressBy::application, .spin = Duration{0}});
      for (int round = 0; round < kRounds; ++round) {
        for (std::size_t i = 0; i < cases.size(); ++i) {
          const auto mine = small_numbers<T>(engine.rank(), cases[i].count, round);
          const Bytes& expected = cases[i].expected[static_cast<std::size_t>(round)];
          std::vector<T> sum(cases[i].count, to<T>(77));
          all[i]->run(driver, driver.deadline(kWatchdog), mine, sum).or_throw();
          EXPECT_TRUE(bytes_of<T>(sum) == expected) << sum.size() << name_of(cases[i].op);
          const auto input = all[i]->template input<T>();
          std::copy(mine.begin(), mine.end(), input.begin());
          all[i]->run(driver, driver.deadline(kWatchdog)).or_throw();
          EXPECT_TRUE(bytes_of<T>(all[i]->template result<T>()) == expected) << sum.size() << ", registered";
        }
      }
      return true;
    });
  }
};

TEST_P(Boards, SumEveryTypeByEveryOperation) {
  expect_sequential_sums<float>();
  expect_sequential_sums<double>();
  expect_sequential_sums<std::int32_t>();
  expect_sequential_sums<std::int64_t>();
  expect_sequential_sums<BFloat16>();
  expect_sequential_sums<Float16>();
}

/// Sums of these depend on their order.
std::optional<Bytes> random_floats(int rank, std::uint64_t count, int round) {
  Random random(static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(rank));
  return random_numbers(random, DataType::float32, ReduceOp::sum, count);
}

TEST_P(Boards, HaveTheBitsOfOneTreeOverTheTreesOfTheBoards) {
  constexpr int kRounds = 3;
  const Seating seating(Members(ranks()), 0, seats());
  const bool powers = std::has_single_bit(static_cast<unsigned>(seats())) && ranks() % seats() == 0 &&
                      std::has_single_bit(static_cast<unsigned>(seating.boards()));
  for (const std::uint64_t count : {1u, 1000u, 100'003u}) {
    std::vector<Bytes> expected;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::optional<Bytes>> all, boards;
      for (int rank = 0; rank < ranks(); ++rank) all.push_back(random_floats(rank, count, round));
      for (int board = 0; board < seating.boards(); ++board) {
        std::vector<std::optional<Bytes>> here;
        for (const int rank : seating.at(board)) here.push_back(all[static_cast<std::size_t>(rank)]);
        boards.push_back(by_fixed_tree(DataType::float32, ReduceOp::sum, here));
      }
      expected.push_back(*by_fixed_tree(DataType::float32, ReduceOp::sum, boards));
      if (powers) {
        EXPECT_TRUE(expected.back() == *by_fixed_tree(DataType::float32, ReduceOp::sum, all))
            << "the bits of every other way";
      }
    }
    run_thread_job(ranks(), [&](Engine& engine) {
      Allreduce allreduce(engine, DataType::float32, count, ReduceOp::sum, {.seats = seats()});
      EngineDriver driver(engine);
      for (int round = 0; round < kRounds; ++round) {
        std::vector<float> mine(count), sum(count);
        std::memcpy(mine.data(), random_floats(engine.rank(), count, round)->data(), count * sizeof(float));
        allreduce.run(driver, driver.deadline(kWatchdog), mine, sum).or_throw();
        EXPECT_TRUE(bytes_of<float>(sum) == expected[static_cast<std::size_t>(round)]) << count << ", round " << round;
      }
      return true;
    });
  }
}

std::vector<std::tuple<int, int>> all_seatings() {
  std::vector<std::tuple<int, int>> out;
  for (const int ranks : {2, 3, 4, 5, 7, 8}) {
    for (int seats = 1; seats <= ranks; ++seats) out.emplace_back(ranks, seats);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Of, Boards, testing::ValuesIn(all_seatings()), [](const auto& info) {
  return text(std::get<0>(info.param), "_ranks_", std::get<1>(info.param), "_seats");
});

class BoardsDrivenBy : public testing::TestWithParam<ProgressBy> {};

TEST_P(BoardsDrivenBy, RoundAfterRoundWithRanksThatComeAtAnyTime) {
  constexpr int kRounds = 150;
  constexpr std::uint64_t kCount = 5000;
  for (const auto& [ranks, seats] : {std::tuple{7, 3}, {5, 2}, {4, 2}}) {
    run_thread_job(ranks, [&, ranks = ranks, seats = seats](Engine& engine) {
      Allreduce large(engine, DataType::int64, kCount, ReduceOp::sum, {.seats = seats});
      Allreduce small(engine, DataType::int64, 1, ReduceOp::max, {.seats = seats});
      EngineDriver driver(engine, {.progress_by = GetParam(), .spin = Duration{0}});
      Random random(static_cast<std::uint64_t>(engine.rank()), 4);
      std::vector<std::int64_t> mine(kCount), sum(kCount), one(1), most(1);
      for (std::int64_t round = 0; round < kRounds; ++round) {
        if (random.chance(0.3)) std::this_thread::sleep_for(std::chrono::microseconds(random.below(500)));
        const std::int64_t right = (round + 1) * ranks * (ranks + 1) / 2;
        const auto input = round % 2 == 0 ? std::span(mine) : large.input<std::int64_t>();
        std::fill(input.begin(), input.end(), (round + 1) * (engine.rank() + 1));
        if (round % 2 == 0) {
          large.run(driver, driver.deadline(kWatchdog), mine, sum).or_throw();
        } else {
          large.run(driver, driver.deadline(kWatchdog)).or_throw();
          std::copy_n(large.result<std::int64_t>().begin(), kCount, sum.begin());
        }
        if (sum != std::vector<std::int64_t>(kCount, right)) {
          ADD_FAILURE() << "rank " << engine.rank() << " of " << ranks << ", round " << round;
          return false;
        }
        one[0] = round * 10 + engine.rank();
        small.run(driver, driver.deadline(kWatchdog), one, most).or_throw();
        EXPECT_EQ(most[0], round * 10 + ranks - 1);
      }
      return true;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, BoardsDrivenBy, testing::Values(ProgressBy::thread, ProgressBy::application),
                         [](const auto& info) { return info.param == ProgressBy::thread ? "thread" : "application"; });

TEST(TwoLevels, ATimeoutNamesWhoIsMissingOnWhicheverBoardAndALaterCallResumes) {
  constexpr int kRanks = 5;
  for (int late = 0; late < kRanks; ++late) {
    SCOPED_TRACE(late);
    std::atomic<int> told{0};
    run_thread_job(kRanks, [&](Engine& engine) {
      Allreduce allreduce(engine, DataType::int32, 9000, ReduceOp::sum, {.seats = 2});
      EngineDriver driver(engine, {.progress_by = late % 2 == 0 ? ProgressBy::thread : ProgressBy::application});
      std::vector<std::int32_t> mine(9000), sum(9000);
      for (int round = 0; round < 3; ++round) {
        mine.assign(9000, 10 * round + engine.rank());
        if (round == 1 && engine.rank() == late) {
          while (told < kRanks - 1) std::this_thread::yield();
        } else if (round == 1) {
          // Ranks that have yet to come are named, too, until they have.
          for (bool late_alone = false; !late_alone;) {
            const auto result = allreduce.run(driver, driver.deadline(20ms), mine, sum);
            EXPECT_FALSE(result);
            if (result) break;
            EXPECT_EQ(result.error().code, Errc::timeout) << result.error().message;
            EXPECT_THAT(result.error().message, StartsWith("allreduce of 9000 int32 by sum: not complete after "));
            late_alone = result.error().message.ends_with(text("; nothing has come from rank ", late));
          }
          ++told;
        }
        allreduce.run(driver, driver.deadline(kWatchdog), mine, sum).or_throw();
        EXPECT_EQ(sum, std::vector<std::int32_t>(9000, 50 * round + 10));
      }
      return true;
    });
  }
}

/// A leader that gives up in the middle of its schedule finds it where it was.
TEST(TwoLevels, CallsWithHardlyAnyTimeCompleteARoundTogether) {
  run_thread_job(4, [](Engine& engine) {
    Allreduce allreduce(engine, DataType::float32, 50'000, ReduceOp::sum, {.seats = 2});
    EngineDriver driver(engine, {.progress_by = ProgressBy::application, .spin = Duration{0}});
    std::vector<float> mine(50'000), sum(50'000);
    for (int round = 0; round < 20; ++round) {
      mine.assign(50'000, static_cast<float>(round + engine.rank()));
      const TimePoint limit = driver.deadline(kWatchdog);
      Result<void> result;
      do {
        result = allreduce.run(driver, driver.deadline(10us), mine, sum);
      } while (!result && result.error().code == Errc::timeout && engine.clock().now() < limit);
      result.or_throw();
      EXPECT_EQ(sum, std::vector<float>(50'000, static_cast<float>(4 * round + 6)));
    }
    return true;
  });
}

TEST(TwoLevels, ALostRankIsNamedByAllOthers) {
  constexpr int kRanks = 5;
  for (int lost = 0; lost < kRanks; ++lost) {
    std::atomic<int> through{0};
    run_thread_job(kRanks, [&](Engine& engine) {
      std::vector<float> mine(100'000, 1), sum(100'000);  // outlive what steps the engine: the last round fails
      Allreduce allreduce(engine, DataType::float32, 100'000, ReduceOp::sum, {.seats = 2});
      EngineDriver driver(engine);
      allreduce.run(driver, driver.deadline(kWatchdog), mine, sum).or_throw();
      ++through;
      while (through < kRanks) std::this_thread::yield();
      if (engine.rank() == lost) return false;
      for (int again = 0; again < 2; ++again) {
        const auto result = allreduce.run(driver, driver.deadline(kWatchdog), mine, sum);
        EXPECT_FALSE(result);
        if (result) return true;
        EXPECT_EQ(result.error().code, Errc::lost_peer) << result.error().message;
        EXPECT_EQ(result.error().rank, lost) << result.error().message;
      }
      return true;
    });
  }
}

TEST(TwoLevels, AKilledProcessIsNamedAndNoWrongResultIsHandedOut) {
  constexpr int kRanks = 5;
  constexpr std::uint64_t kCount = 2 << 20;
  // A leader with other ranks at its board, one without, and ranks that do not lead.
  for (const int victim : {0, 1, 2, 3, 4}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const Death death{seed % 2 == 0 ? Death::Touching::contribution : Death::Touching::result,
                        random_bits(static_cast<std::uint64_t>(victim), seed, 0) % kCount};
      const auto status = run_process_job(
          kRanks, [&](Engine& engine) { return allreduce_until_lost(engine, {.seats = 2}, kCount, victim, death); });
      std::vector<int> expected(kRanks, 0);
      expected[static_cast<std::size_t>(victim)] = 128 + SIGKILL;
      EXPECT_EQ(status, expected) << "victim " << victim << ", seed " << seed;
    }
  }
}

/// The collective of rank 2 of four, where the others make an allreduce of 5 float32 at boards of 2.
struct Odd {
  const char* words;
  DataType type = DataType::float32;
  std::uint64_t count = 5;
  ReduceOp op = ReduceOp::sum;
  AllreduceOptions options = {.seats = 2};
};

TEST(TwoLevels, RanksThatDisagreeAreBothNamedOnEveryRank) {
  const Odd right{"allreduce of 5 float32 by sum through gather by 8192 B at boards of 2"};
  const Odd odds[] = {
      {.words = "allreduce of 6 float32 by sum through gather by 8192 B at boards of 2", .count = 6},
      {.words = "allreduce of 5 int32 by sum through gather by 8192 B at boards of 2", .type = DataType::int32},
      {.words = "allreduce of 5 float32 by max through gather by 8192 B at boards of 2", .op = ReduceOp::max},
      {.words = "allreduce of 5 float32 by sum through gather by 8192 B at boards of 3", .options = {.seats = 3}},
      {.words = "allreduce of 5 float32 by sum through gather by 8192 B",
       .options = {.through = Through::gather, .seats = 4}},
      {.words = "allreduce of 5 float32 by sum", .options = {.seats = 1}},
  };
  for (const Odd& odd : odds) {
    SCOPED_TRACE(odd.words);
    std::barrier<> all(4);  // a rank that leaves may be heard of before what another one has found
    run_thread_job(4, [&](Engine& engine) {
      const Odd& mine = engine.rank() == 2 ? odd : right;
      Allreduce sum(engine, mine.type, mine.count, mine.op, mine.options);
      EngineDriver driver(engine);
      const auto result = sum.run(driver, driver.deadline(kWatchdog));
      all.arrive_and_wait();
      EXPECT_FALSE(result);
      if (result) return true;
      EXPECT_EQ(result.error().code, Errc::bad_input) << result.error().message;
      // The rank that first finds an unexpected description says so: rank 2, or another rank about it.
      EXPECT_THAT(result.error().message, AllOf(HasSubstr(text("rank 2 runs \"", odd.words, '"')),
                                                HasSubstr(text(" runs \"", right.words, '"'))));
      return true;
    });
  }
}

TEST(TwoLevels, TooLittleSharedMemoryIsSaidBeforeTheFirstStep) {
  ::setenv("STRETTO_SHM_LIMIT", "50000000", 1);
  run_thread_job(4, [](Engine& engine) {
    try {
      const Allreduce too_large(engine, DataType::float32, 10'000'000, ReduceOp::sum, {.seats = 2});
      ADD_FAILURE() << "320 MB of 50";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().code, Errc::unavailable);
      EXPECT_THAT(failure.what(),
                  AllOf(HasSubstr("too little shared memory: \"allreduce of 10000000 float32 by sum"),
                        HasSubstr("at boards of 2\" of 4 ranks needs 152.6 MiB"), HasSubstr("; for each of 2 boards")));
    }
    return true;
  });
  ::unsetenv("STRETTO_SHM_LIMIT");
}

TEST(TwoLevels, SeatsThatCannotBeAreNamed) {
  run_thread_job(4, [](Engine& engine) {
    const auto message_of = [&](AllreduceOptions options) -> std::string {
      try {
        const Allreduce odd(engine, DataType::float32, 5, ReduceOp::sum, options);
      } catch (const UsageError& error) {
        return error.what();
      }
      return "no error";
    };
    EXPECT_THAT(message_of({.seats = 5}), HasSubstr("seats 5 with 4 ranks"));
    EXPECT_THAT(message_of({.seats = -1}), HasSubstr("seats -1 with 4 ranks"));
    EXPECT_THAT(message_of({.through = Through::exchange, .seats = 2}), HasSubstr("seats 2 through exchange"));
    EXPECT_THAT(message_of({.through = Through::exchange, .seats = 1}), HasSubstr("seats 1 through exchange"));
    EXPECT_THAT(message_of({.through = Through::gather, .seats = 1}), HasSubstr("seats 1 through gather"));
    EXPECT_THAT(message_of({.through = Through::messages, .seats = 2}), HasSubstr("seats 2 through messages"));
    EXPECT_THAT(message_of({.through = Through::messages, .seats = 4}), HasSubstr("seats 4 through messages"));
    return true;
  });
}

TEST(TwoLevels, SayHowTheRanksAreSeated) {
  run_thread_job(7, [](Engine& engine) {
    const auto explain = [&](std::uint64_t count, AllreduceOptions options) {
      return Allreduce(engine, DataType::float32, count, ReduceOp::sum, options).explanation();
    };
    std::vector<std::string> said = {explain(5, {.seats = 3}),
                                     explain(1 << 20, {.through = Through::gather, .seats = 2}),
                                     explain(5, {.seats = 1}), explain(5, {.through = Through::exchange, .seats = 7})};
    if (engine.rank() != 6) return true;
    EXPECT_EQ(said[0],
              "allreduce of 5 float32 by sum over 7 ranks: gather (as asked for: 3 boards of 1 to 3 ranks, "
              "recursive_doubling between their leaders)");
    EXPECT_THAT(said[1], HasSubstr("4 boards of 1 to 2 ranks, halving_doubling between their leaders"));
    EXPECT_THAT(said[2], HasSubstr("messages (as asked for)"));
    EXPECT_THAT(said[3], HasSubstr("exchange (as asked for)"));
    return true;
  });
}

}  // namespace
}  // namespace stretto
