// An Allreduce through each of its ways: the same bits, timeouts, lost ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "stretto/base/random.h"
#include "stretto/board/testing/test_support.h"
#include "stretto/collective/plain.h"
#include "stretto/collective/testing/process_job.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/collective/testing/watchdog.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using Through = AllreduceOptions::Through;

constexpr Through kWays[] = {Through::messages, Through::exchange, Through::gather};

const char* name_of(Through through) {
  switch (through) {
    case Through::automatic: return "automatic";
    case Through::messages: return "messages";
    case Through::exchange: return "exchange";
    case Through::gather: return "gather";
  }
  return "?";
}

/// Sums of these depend on their order.
template <class T>
std::vector<T> numbers(int rank, std::uint64_t count, int round) {
  Random random(static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(rank));
  const Bytes bytes = random_numbers(random, kDataTypeOf<T>, ReduceOp::sum, count);
  std::vector<T> out(count);
  if (count > 0) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

template <class T>
Bytes expected_sum(int ranks, std::uint64_t count, int round) {
  std::vector<std::optional<Bytes>> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.emplace_back(bytes_of<T>(numbers<T>(rank, count, round)));
  return *by_fixed_tree(kDataTypeOf<T>, ReduceOp::sum, inputs);
}

template <class T>
void expect_same_bits(int ranks, std::uint64_t count) {
  SCOPED_TRACE(testing::Message() << count << " of " << sizeof(T) << " bytes, " << ranks << " ranks");
  constexpr int kRounds = 2;
  std::vector<Bytes> expected;
  for (int round = 0; round < kRounds; ++round) expected.push_back(expected_sum<T>(ranks, count, round));
  run_thread_job(ranks, [&](Engine& engine) {
    std::vector<std::unique_ptr<Allreduce>> all;
    for (const Through through : kWays) {
      all.push_back(std::make_unique<Allreduce>(engine, kDataTypeOf<T>, count, ReduceOp::sum,
                                                AllreduceOptions{.through = through}));
    }
    EngineDriver driver(engine, {.progress_by = ProgressBy::application, .spin = Duration{0}});
    for (int round = 0; round < kRounds; ++round) {
      const auto mine = numbers<T>(engine.rank(), count, round);
      const auto& right = expected[static_cast<std::size_t>(round)];
      for (std::size_t i = 0; i < all.size(); ++i) {
        std::vector<T> sum(count);
        all[i]->run(driver, driver.deadline(kWatchdog), mine, sum).or_throw();
        EXPECT_TRUE(bytes_of<T>(sum) == right) << name_of(kWays[i]) << ", round " << round;
        if (kWays[i] != Through::messages) {
          sum = mine;
          all[i]->run(driver, driver.deadline(kWatchdog), sum, sum).or_throw();
          EXPECT_TRUE(bytes_of<T>(sum) == right) << name_of(kWays[i]) << ", in place, round " << round;
        }
        const auto input = all[i]->template input<T>();
        std::copy(mine.begin(), mine.end(), input.begin());
        all[i]->run(driver, driver.deadline(kWatchdog)).or_throw();
        EXPECT_TRUE(bytes_of<T>(all[i]->template result<T>()) == right) << name_of(kWays[i]) << ", registered";
      }
    }
    return true;
  });
}

TEST(AllreduceWays, GiveTheBitsOfTheFixedTree) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const std::uint64_t count : {0u, 1u, 1000u}) {
      expect_same_bits<float>(ranks, count);
      expect_same_bits<double>(ranks, count);
      expect_same_bits<BFloat16>(ranks, count);
      expect_same_bits<Float16>(ranks, count);
    }
  }
}

TEST(AllreduceWays, GiveTheSameBitsInManyPieces) {
  for (const int ranks : {2, 3, 5, 8, 9}) expect_same_bits<float>(ranks, 100'003);
  expect_same_bits<BFloat16>(3, 100'003);
}

class AllreduceThrough : public testing::TestWithParam<AllreduceOptions> {
 protected:
  AllreduceOptions options() const { return GetParam(); }
};

TEST_P(AllreduceThrough, ATimeoutNamesWhoIsMissingAndALaterCallResumes) {
  std::atomic<bool> go{false};
  run_thread_job(3, [&](Engine& engine) {
    Allreduce allreduce(engine, DataType::int32, 1000, ReduceOp::sum, options());
    EngineDriver driver(engine);
    std::vector<std::int32_t> mine(1000), sum(1000), other(1000);
    for (int round = 0; round < 3; ++round) {
      mine.assign(1000, 10 * round + engine.rank());
      if (round == 1 && engine.rank() == 2) {
        while (!go) std::this_thread::yield();
      }
      if (round == 1 && engine.rank() == 0) {
        // Until rank 1 has come it is named, too.
        for (bool rank_2_alone = false; !rank_2_alone;) {
          const auto result = allreduce.run(driver, driver.deadline(20ms), mine, sum);
          EXPECT_FALSE(result);
          if (result) break;
          EXPECT_EQ(result.error().code, Errc::timeout);
          EXPECT_THAT(result.error().message, HasSubstr("allreduce of 1000 int32 by sum"));
          EXPECT_THAT(result.error().message, HasSubstr("not complete after "));
          rank_2_alone = result.error().message.ends_with("; nothing has come from rank 2");
        }
        EXPECT_THROW((void)allreduce.run(driver, driver.deadline(1s), mine, other), UsageError);
        EXPECT_THROW((void)allreduce.run(driver, driver.deadline(1s)), UsageError) << "that is other memory";
        go = true;
      }
      allreduce.run(driver, driver.deadline(kWatchdog), mine, sum).or_throw();
      EXPECT_EQ(sum, std::vector<std::int32_t>(1000, 30 * round + 3));
    }
    return true;
  });
}

TEST_P(AllreduceThrough, ALostRankIsNamedByAllOthersAndNoResultIsHandedOut) {
  for (int lost = 0; lost < 3; ++lost) {
    std::atomic<int> through{0};
    run_thread_job(3, [&](Engine& engine) {
      std::vector<float> mine(200'000, 1), sum(200'000);  // outlive what steps the engine: the last round fails
      Allreduce allreduce(engine, DataType::float32, 200'000, ReduceOp::sum, options());
      EngineDriver driver(engine);
      allreduce.run(driver, driver.deadline(kWatchdog), mine, sum).or_throw();
      EXPECT_EQ(sum, std::vector<float>(200'000, 3));
      ++through;
      while (through < 3) std::this_thread::yield();
      if (engine.rank() == lost) return false;
      for (int again = 0; again < 2; ++again) {
        const auto result = allreduce.run(driver, driver.deadline(kWatchdog), mine, sum);
        EXPECT_FALSE(result);
        if (result) return true;
        EXPECT_EQ(result.error().code, Errc::lost_peer) << result.error().message;
        EXPECT_EQ(result.error().rank, lost) << result.error().message;
        EXPECT_THAT(result.error().message, HasSubstr(text("rank ", lost, " is lost")));
      }
      return true;
    });
  }
}

/// One rank is killed in the middle of a large allreduce, at an element that the seed draws.
TEST_P(AllreduceThrough, AKilledProcessIsNamedAndNoWrongResultIsHandedOut) {
  constexpr int kRanks = 3;
  constexpr std::uint64_t kCount = 3 << 20;
  for (int victim = 0; victim < kRanks; ++victim) {
    for (const auto touching : {Death::Touching::contribution, Death::Touching::result}) {
      const std::uint64_t element = random_bits(static_cast<std::uint64_t>(victim), 1, 0) % kCount;
      const auto status = run_process_job(kRanks, [&](Engine& engine) {
        return allreduce_until_lost(engine, options(), kCount, victim, {touching, element});
      });
      std::vector<int> expected(kRanks, 0);
      expected[static_cast<std::size_t>(victim)] = 128 + SIGKILL;
      EXPECT_EQ(status, expected) << "victim " << victim
                                  << (touching == Death::Touching::result ? " at its result" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, AllreduceThrough,
                         testing::Values(AllreduceOptions{Through::messages}, AllreduceOptions{Through::exchange},
                                         AllreduceOptions{Through::gather}, AllreduceOptions{.seats = 2}),
                         [](const auto& info) {
                           return std::string(info.param.seats == 2 ? "two_boards" : name_of(info.param.through));
                         });

}  // namespace
}  // namespace stretto
