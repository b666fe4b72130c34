// The partial allreduce over real shared memory: threads as ranks (so that the thread sanitizer sees them all), real
// helper threads, and integer payloads with exact sums.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <thread>

#include "stretto/base/random.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/collective/testing/watchdog.h"
#include "stretto/transport/shm.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

struct LiveRounds {
  int ranks = 4;
  PartialOptions options;
  ProgressBy progress_by = ProgressBy::thread;
  std::uint64_t steps = 200;
  std::uint64_t count = 300;
  bool bucketwise = false;
};

/// Over a board (0: all ranks of the host have a seat at it), by messages (1), and over several boards, of which the
/// last has fewer seats.
class PartialAllreduceLive : public testing::TestWithParam<int> {
 protected:
  void expect_exact(LiveRounds live) const;
};

std::int64_t value(int rank, std::uint64_t step) {
  return static_cast<std::int64_t>(random_bits(99, static_cast<std::uint64_t>(rank), step));
}

/// What one rank saw.
struct Seen {
  std::uint64_t sum = 0;      // of all results, element 0
  std::uint64_t history = 0;  // hash of all results and headers, in order
  std::uint64_t batches = 0;
  Round rounds = 0;
  std::string fault;
};

void run_rank(JobMemory& memory, int rank, const LiveRounds& live, Seen& seen) {
  ShmTransport transport(memory, rank);
  const SteadyClock clock;
  Engine engine(transport, clock);
  PartialAllreduce allreduce(engine, {{DataType::int64, live.count}, {DataType::int64, 5}}, live.options);
  EngineDriver driver(engine, {.progress_by = live.progress_by, .spin = 0ns});
  const TimePoint deadline = driver.deadline(100s);
  const auto apply = [&](const RoundResult& result) {
    if (result.round < seen.rounds) seen.fault = "out of order";
    if (live.options.delivery == Delivery::every && result.round != seen.rounds) seen.fault = "a round was skipped";
    seen.rounds = result.round + 1;
    seen.batches += result.header->batches;
    if (result.empty()) return;
    const auto a = result.as<std::uint64_t>(0);
    const auto b = result.as<std::uint64_t>(1);
    for (std::uint64_t x : a) {
      if (x != a[0]) seen.fault = "torn";
    }
    if (b[0] != a[0]) seen.fault = "buckets of different steps in one round";
    seen.sum += a[0];
    seen.history = random_bits(seen.history, a[0], result.header->batches + result.header->sum_of_bases);
  };
  Random random(5, static_cast<std::uint64_t>(rank));
  const std::uint64_t steps = live.steps + random.below(7);  // unequal numbers of steps
  for (std::uint64_t step = 0; step < steps && seen.fault.empty(); ++step) {
    const auto fill = [&](Contribution& c, int bucket) {
      for (auto& x : c.as<std::int64_t>(bucket)) x = value(rank, step);
    };
    if (random.chance(0.05)) std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));
    Contribution& c = allreduce.acquire();
    if (live.bucketwise) {
      allreduce.begin_deposit(c, {});
      for (int bucket = 0; bucket < 2; ++bucket) {
        fill(c, bucket);
        allreduce.bucket_ready(c, bucket);
      }
    } else {
      fill(c, 0);
      fill(c, 1);
      allreduce.deposit(c, {});
    }
    if (const auto result = allreduce.exchange(driver, deadline, apply); !result) seen.fault = result.error().message;
  }
  if (const auto result = allreduce.finish(driver, deadline, apply); !result) seen.fault = result.error().message;
  memory.leave(rank);
}

void PartialAllreduceLive::expect_exact(LiveRounds live) const {
  const bool board = live.options.delivery == Delivery::every;
  live.options.seats = board ? std::min(GetParam(), live.ranks) : std::min(GetParam(), 1);
  auto memory = JobMemory::create(live.ranks).or_throw();
  std::vector<Seen> seen(static_cast<std::size_t>(live.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < live.ranks; ++rank) {
    threads.emplace_back([&, rank] { run_rank(memory, rank, live, seen[static_cast<std::size_t>(rank)]); });
  }
  for (auto& thread : threads) thread.join();
  std::uint64_t sum = 0;
  std::uint64_t batches = 0;
  for (int rank = 0; rank < live.ranks; ++rank) {
    Random random(5, static_cast<std::uint64_t>(rank));
    const std::uint64_t steps = live.steps + random.below(7);
    for (std::uint64_t step = 0; step < steps; ++step) sum += static_cast<std::uint64_t>(value(rank, step));
    batches += steps;
  }
  for (int rank = 0; rank < live.ranks; ++rank) {
    const Seen& mine = seen[static_cast<std::size_t>(rank)];
    ASSERT_EQ(mine.fault, "") << "rank " << rank;
    EXPECT_EQ(mine.rounds, seen[0].rounds) << "all stop after the same round";
    if (live.options.delivery == Delivery::latest) continue;
    EXPECT_EQ(mine.batches, batches) << "rank " << rank;
    EXPECT_EQ(mine.sum, sum) << "rank " << rank;
    EXPECT_EQ(mine.history, seen[0].history) << "rank " << rank;
  }
}

TEST_P(PartialAllreduceLive, Solo) {
  expect_exact({.ranks = 5, .options = {.policy = Policy::solo()}});
}

TEST_P(PartialAllreduceLive, SoloWithTheSmallestLag) {
  expect_exact({.ranks = 3, .options = {.policy = Policy::solo(), .max_lag = 1}});
}

TEST_P(PartialAllreduceLive, SevenRanks) {
  for (const Policy& policy : {Policy::solo(), Policy::majority(), Policy::at_least(5), Policy::full()}) {
    expect_exact({.ranks = 7, .options = {.policy = policy, .full_every = 64}, .steps = 100});
  }
}

TEST_P(PartialAllreduceLive, Quorum) {
  expect_exact({.ranks = 6, .options = {.policy = Policy::at_least(3)}});
}

TEST_P(PartialAllreduceLive, QuorumWithFullRoundsInBetween) {
  expect_exact({.ranks = 4, .options = {.policy = Policy::at_least(2), .full_every = 32}});
}

TEST_P(PartialAllreduceLive, Majority) {
  expect_exact({.ranks = 4, .options = {.policy = Policy::majority(), .seed = 3}});
}

TEST_P(PartialAllreduceLive, Deadline) {
  expect_exact({.ranks = 4, .options = {.policy = Policy::deadline(2, 200us)}});
  expect_exact({.ranks = 3, .options = {.policy = Policy::adaptive_deadline(1)}});
}

TEST_P(PartialAllreduceLive, Full) {
  expect_exact({.ranks = 3, .options = {.policy = Policy::full()}});
}

TEST_P(PartialAllreduceLive, FullBucketByBucket) {
  expect_exact({.ranks = 3, .options = {.policy = Policy::full()}, .bucketwise = true});
}

TEST_P(PartialAllreduceLive, LargeBucketsInOrderOfArrival) {
  expect_exact(
      {.ranks = 3, .options = {.policy = Policy::solo(), .order = SumOrder::arrival}, .steps = 20, .count = 100'000});
}

TEST_P(PartialAllreduceLive, LatestKeepsOnlyTheNewest) {
  expect_exact({.ranks = 4, .options = {.policy = Policy::solo(), .full_every = 100, .delivery = Delivery::latest}});
}

TEST_P(PartialAllreduceLive, ProgressByTheApplicationAlone) {
  expect_exact(
      {.ranks = 3, .options = {.policy = Policy::at_least(2)}, .progress_by = ProgressBy::application, .steps = 100});
}

TEST_P(PartialAllreduceLive, RoundsGoOnWhileLeadersCompute) {
  constexpr int kRanks = 5, kRounds = 4;
  std::atomic<bool> over{false};
  run_thread_job(kRanks, [&, seats = GetParam()](Engine& engine) {
    PartialAllreduce allreduce(engine, {{DataType::int64, 1}},
                               {.policy = Policy::at_least(2), .max_lag = kRounds, .seats = seats});
    EngineDriver driver(engine);
    std::uint64_t batches = 0;
    const auto count = [&](const RoundResult& result) { batches += result.header->batches; };
    // Ranks 1 and 4 go ahead, as far as the others let them.
    const bool computes = engine.rank() != 1 && engine.rank() != 4;
    while (computes && !over) std::this_thread::sleep_for(1ms);
    for (int step = 0; step < kRounds && !computes; ++step) {
      allreduce.deposit(allreduce.acquire(), {});
      const auto result = allreduce.exchange(driver, driver.deadline(60s), count);
      if (!result) ADD_FAILURE() << result.error().message;
    }
    if (engine.rank() == 1) over = true;
    EXPECT_TRUE(allreduce.finish(driver, driver.deadline(60s), count));
    EXPECT_EQ(batches, 2u * kRounds);
    return true;
  });
}

TEST_P(PartialAllreduceLive, ATimeoutNamesTheRoundAndWhoIsMissingAndTheCallResumes) {
  constexpr int kRanks = 3, kLate = 2;
  auto memory = JobMemory::create(kRanks).or_throw();
  std::atomic<bool> timed_out{false};
  const int seats = GetParam();
  const auto rank_main = [&](int rank) {
    ShmTransport transport(memory, rank);
    const SteadyClock clock;
    Engine engine(transport, clock);
    PartialAllreduce allreduce(engine, {{DataType::int64, 1}}, {.seats = seats});
    EngineDriver driver(engine);
    const auto ignore = [](const RoundResult&) {};
    Contribution& c = allreduce.acquire();
    c.as<std::int64_t>(0)[0] = rank + 1;
    if (rank == kLate) {
      while (!timed_out) std::this_thread::yield();
    }
    allreduce.deposit(c, {});
    if (rank == 0) {
      // Before rank 1 has come it is named, too.
      for (bool rank_1_has_come = false; !rank_1_has_come;) {
        const auto early = allreduce.exchange(driver, driver.deadline(20ms), ignore);
        ASSERT_FALSE(early);
        ASSERT_EQ(early.error().code, Errc::timeout);
        rank_1_has_come = early.error().message == "round 0 (full) waits for rank 2 (computing)";
      }
      timed_out = true;
    }
    std::int64_t sum = 0;
    const auto result =
        allreduce.exchange(driver, driver.deadline(60s), [&](const RoundResult& r) { sum = r.as<std::int64_t>(0)[0]; });
    ASSERT_TRUE(result);
    EXPECT_EQ(sum, 6);
    EXPECT_TRUE(allreduce.finish(driver, driver.deadline(60s), ignore));
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < kRanks; ++rank) others.emplace_back(rank_main, rank);
  rank_main(0);
  for (auto& other : others) other.join();
}

TEST_P(PartialAllreduceLive, AnAbortReachesEveryoneWithItsReason) {
  constexpr int kRanks = 4;
  const int seats = GetParam();
  auto memory = JobMemory::create(kRanks).or_throw();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      ShmTransport transport(memory, rank);
      const SteadyClock clock;
      Engine engine(transport, clock);
      PartialAllreduce allreduce(engine, {{DataType::int64, 1}}, {.seats = seats});
      EngineDriver driver(engine);
      const auto ignore = [](const RoundResult&) {};
      if (rank == 2) {
        allreduce.abort(driver, {Errc::aborted, "gradient of layer3.weight is NaN in step 17", 2});
      } else {
        allreduce.deposit(allreduce.acquire(), {});
      }
      const auto result = allreduce.exchange(driver, driver.deadline(60s), ignore);
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().code, Errc::aborted);
      EXPECT_EQ(result.error().rank, 2);
      EXPECT_NE(result.error().message.find("gradient of layer3.weight is NaN in step 17"), std::string::npos);
      EXPECT_FALSE(allreduce.finish(driver, driver.deadline(60s), ignore)) << "later calls fail, too";
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(PartialAllreduceSeats, AreAtMostTheRanks) {
  auto memory = JobMemory::create(3).or_throw();
  ShmTransport transport(memory, 0);
  const SteadyClock clock;
  Engine engine(transport, clock);
  for (const int seats : {-1, 4}) {
    try {
      PartialAllreduce allreduce(engine, {{DataType::int64, 1}}, {.seats = seats});
      FAIL() << seats;
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()), text("seats ", seats, " with 3 ranks: use 1 to 3, or 0 for all of them"));
    }
  }
}

TEST(PartialAllreduceSeats, WhereRanksDisagreeEveryOneIsTold) {
  constexpr int kRanks = 5;
  for (const int other : {0, 1, 3}) {
    run_thread_job(kRanks, [&](Engine& engine) {
      PartialAllreduce allreduce(engine, {{DataType::int64, 1}},
                                 {.policy = Policy::solo(), .seats = engine.rank() == 0 ? other : 2});
      EngineDriver driver(engine);
      allreduce.deposit(allreduce.acquire(), {});
      // Rank 0 is needed in every round.
      Result<int> result = 0;
      while (result) result = allreduce.exchange(driver, driver.deadline(60s), [](const RoundResult&) {});
      EXPECT_EQ(result.error().code, Errc::bad_input);
      EXPECT_NE(result.error().message.find("on boards of 2 ranks"), std::string::npos) << result.error().message;
      return true;
    });
  }
}

/// One round of 4 ranks; the bits of its sums.
std::vector<std::uint32_t> bits_over(int seats) {
  constexpr int kRanks = 4;
  constexpr std::uint64_t kCounts[] = {100, 40'000};
  std::vector<std::uint32_t> bits;
  run_thread_job(kRanks, [&](Engine& engine) {
    PartialAllreduce allreduce(engine, {{DataType::float32, kCounts[0]}, {DataType::float32, kCounts[1]}},
                               {.seats = seats});
    EngineDriver driver(engine);
    Contribution& c = allreduce.acquire();
    Random random(8, static_cast<std::uint64_t>(engine.rank()));
    for (int bucket = 0; bucket < 2; ++bucket) {
      for (float& x : c.as<float>(bucket)) x = static_cast<float>(random.normal());
    }
    allreduce.deposit(c, {});
    const auto keep = [&](const RoundResult& result) {
      for (int bucket = 0; bucket < 2 && engine.rank() == 3; ++bucket) {
        for (const std::uint32_t x : result.as<std::uint32_t>(bucket)) bits.push_back(x);
      }
    };
    EXPECT_TRUE(allreduce.exchange(driver, driver.deadline(60s), keep));
    EXPECT_TRUE(allreduce.finish(driver, driver.deadline(60s), [](const RoundResult&) {}));
    return true;
  });
  return bits;
}

TEST(PartialAllreduceSeats, PowersOfTwoSumToTheSameBits) {
  const auto bits = bits_over(0);
  EXPECT_EQ(bits.size(), 40'100u);
  EXPECT_EQ(bits_over(1), bits);
  EXPECT_EQ(bits_over(2), bits);
}

/// Bucket 0 of a full round crosses between two boards while every application computes bucket 1. The leaders come last
/// of their boards, and hand bucket 0 over first: by their own call and by the others' their helper threads are woken,
/// which would look in 250 ms otherwise.
TEST(PartialAllreduceSeats, ABucketCrossesWhileAllCompute) {
  constexpr int kRanks = 4;
  constexpr std::uint64_t kCount = 1000;
  std::barrier<> stage(kRanks);
  run_thread_job(kRanks, [&](Engine& engine) {
    const bool leads = engine.rank() % 2 == 0;
    PartialAllreduce allreduce(engine, {{DataType::int64, kCount}, {DataType::int64, kCount}}, {.seats = 2});
    EngineDriver driver(engine);
    Contribution& c = allreduce.acquire();
    for (int bucket = 0; bucket < 2; ++bucket) std::ranges::fill(c.as<std::int64_t>(bucket), 1 + engine.rank());
    const auto rings = [&engine] { return engine.doorbell().rings(); };
    if (leads) stage.arrive_and_wait();
    const std::uint32_t before = rings();
    allreduce.begin_deposit(c, {});
    if (leads) {
      EXPECT_GT(rings(), before);
    }
    if (!leads) stage.arrive_and_wait();
    const std::uint32_t begun = rings();
    if (!leads) stage.arrive_and_wait();
    allreduce.bucket_ready(c, 0);
    if (leads) stage.arrive_and_wait();
    stage.arrive_and_wait();
    if (leads) {
      EXPECT_GT(rings(), begun);
    }
    const TimePoint give_up = driver.deadline(kWatchdog);
    while (leads && engine.traffic().body_bytes < kCount * sizeof(std::int64_t)) {
      if (driver.clock().now() > give_up) {
        ADD_FAILURE() << "nothing of bucket 0 has left rank " << engine.rank();
        break;
      }
      std::this_thread::sleep_for(1ms);
    }
    stage.arrive_and_wait();
    allreduce.bucket_ready(c, 1);
    int rounds = 0;
    const auto check = [&](const RoundResult& result) {
      ++rounds;
      for (int bucket = 0; bucket < 2; ++bucket) {
        for (const std::int64_t x : result.as<std::int64_t>(bucket)) EXPECT_EQ(x, 10);
      }
    };
    EXPECT_TRUE(allreduce.exchange(driver, driver.deadline(kWatchdog), check));
    EXPECT_EQ(rounds, 1);
    EXPECT_TRUE(allreduce.finish(driver, driver.deadline(kWatchdog), check));
    return true;
  });
}

std::string name_of(const testing::TestParamInfo<int>& seats) {
  if (seats.param < 2) return seats.param == 0 ? "board" : "messages";
  return text("boards_of_", seats.param);
}

INSTANTIATE_TEST_SUITE_P(Over, PartialAllreduceLive, testing::Values(0, 1, 2, 3), name_of);

}  // namespace
}  // namespace stretto
