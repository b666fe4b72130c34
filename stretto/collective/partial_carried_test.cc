// What a rank takes of a partial allreduce from one world to the next, with exact integers, and a freeze by a thread
// beside the ranks' own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <mutex>
#include <thread>

#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/probes.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/transport/shm.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::ThrowsMessage;

const auto kIgnoreCarried = [](const RoundResult&) {};
const std::vector<BucketSpec> kCarriedBuckets = {{DataType::int64, 3}, {DataType::int64, 2}};

void deposit_number(PartialAllreduce& allreduce, std::int64_t number) {
  Contribution& mine = allreduce.acquire();
  for (int bucket = 0; bucket < 2; ++bucket) std::ranges::fill(mine.as<std::int64_t>(bucket), number);
  allreduce.deposit(mine, {.samples = 10});
}

std::int64_t number_in(const Carried::Deposit& deposit) {
  return *reinterpret_cast<const std::int64_t*>(deposit.buckets[0].data());
}

std::vector<int> batches_by_rank(const RoundHeader& header) {
  std::vector<int> batches;
  for (const RankTimes& of : header.times) batches.push_back(of.batches);
  return batches;
}

TEST(PartialFixed, HeadersCountNoBatchesOfEachRankWhereMembersStay) {
  run_thread_job(2, [&](Engine& engine) {
    PartialAllreduce allreduce(engine, kCarriedBuckets);
    EngineDriver driver(engine, {.spin = 0ns});
    deposit_number(allreduce, 1);
    EXPECT_TRUE(allreduce.exchange(driver, driver.deadline(60s), [](const RoundResult& result) {
      EXPECT_EQ(batches_by_rank(*result.header), (std::vector{0, 0}));
    }));
    EXPECT_TRUE(allreduce.finish(driver, driver.deadline(60s), kIgnoreCarried));
    return true;
  });
}

/// On a board, by messages, and on several boards.
class PartialCarried : public testing::TestWithParam<int> {};

TEST_P(PartialCarried, ADepositThatNoRoundHasTakenIsMadeAnewInFrontOfLaterOnes) {
  std::mutex mutex;
  std::vector<Carried> carried(3);
  std::barrier<> all_have_round_0(3);
  run_thread_job(3, [&](Engine& engine) {
    PartialAllreduce allreduce(engine, kCarriedBuckets, {.max_lag = 2, .seats = GetParam(), .members_change = true});
    EngineDriver driver(engine, {.spin = 0ns});
    const int rank = engine.rank();
    deposit_number(allreduce, 100 + rank);
    EXPECT_TRUE(allreduce.exchange(driver, driver.deadline(60s), kIgnoreCarried));
    all_have_round_0.arrive_and_wait();
    deposit_number(allreduce, 200 + rank);
    EXPECT_THAT([&] { allreduce.complete(); }, ThrowsMessage<UsageError>(HasSubstr("before Engine::freeze()")));
    std::jthread([&] { engine.freeze(); }).join();
    EXPECT_TRUE(engine.frozen());
    EXPECT_EQ(allreduce.complete(), 1u);
    deposit_number(allreduce, 300 + rank);  // the application computes on
    const auto cut_off = allreduce.exchange(driver, driver.deadline(60s), kIgnoreCarried);
    EXPECT_FALSE(cut_off);
    EXPECT_EQ(cut_off.error().code, Errc::members_changed);
    const auto kept = allreduce.result_of(0);
    EXPECT_TRUE(kept && kept->header->batches == 3 && kept->as<std::int64_t>(1)[1] == 303) << "rank " << rank;
    EXPECT_EQ(kept ? batches_by_rank(*kept->header) : std::vector<int>(), (std::vector{1, 1, 1}));
    EXPECT_FALSE(allreduce.result_of(1));
    EXPECT_THAT([&] { allreduce.take_out(0); }, ThrowsMessage<UsageError>(HasSubstr("1 rounds are complete")));
    const std::lock_guard lock(mutex);
    carried[static_cast<std::size_t>(rank)] = allreduce.take_out(1);
    return true;
  });
  for (int rank = 0; rank < 3; ++rank) {
    std::int64_t sum = 0;
    std::uint64_t batches = 0;
    for (const auto& deposit : carried[static_cast<std::size_t>(rank)].deposits) {
      sum += number_in(deposit);
      batches += deposit.facts.batches;
      EXPECT_EQ(deposit.facts.oldest_base, 1u);
    }
    EXPECT_EQ(sum, 500 + 2 * rank);
    EXPECT_EQ(batches, 2u);
  }

  // Rank 1 is lost. The two others go on after round 0.
  run_thread_job(2, [&](Engine& engine) {
    PartialAllreduce allreduce(engine, kCarriedBuckets,
                               {.max_lag = 2,
                                .batches_before = 3,
                                .seats = std::min(GetParam(), 2),
                                .members_change = true,
                                .rounds_before = 1});
    const int rank = engine.rank();
    EXPECT_EQ(allreduce.handed(), 1u);
    allreduce.put_in(carried[2 * static_cast<std::size_t>(rank)]);
    EXPECT_THAT([&] { allreduce.put_in(carried[0]); }, ThrowsMessage<UsageError>(HasSubstr("it comes first")));
    EngineDriver driver(engine, {.spin = 0ns});
    deposit_number(allreduce, 1000);
    int rounds = 0;
    const auto done = allreduce.exchange(driver, driver.deadline(60s), [&](const RoundResult& result) {
      ++rounds;
      EXPECT_EQ(result.round, 1u);
      EXPECT_EQ(result.as<std::int64_t>(0)[2], 500 + 504 + 2000);
      EXPECT_EQ(result.header->batches, 6u);
      EXPECT_EQ(batches_by_rank(*result.header), (std::vector{3, 3}));
      EXPECT_EQ(result.header->samples, 60u);
      EXPECT_EQ(result.header->oldest_base, 1u);
      EXPECT_EQ(result.header->max_staleness(result.round), 0u);
      EXPECT_EQ(result.header->num_fresh(), 2);
    });
    EXPECT_TRUE(done);
    EXPECT_EQ(rounds, 1);
    EXPECT_TRUE(allreduce.finish(driver, driver.deadline(60s), kIgnoreCarried));
    return true;
  });
}

/// Rank 0 computes on while a thread beside freezes it; the others exchange, and wait in exchange() when they are
/// frozen. What no round has taken lies in take_out(), and nothing lies in both.
TEST_P(PartialCarried, AThreadBesideFreezesARankThatComputesAndRanksThatWait) {
  constexpr int kRanks = 4;
  constexpr std::int64_t kWide = 1 << 20;  // numbers of one rank stay below
  for (int again = 0; again < 10; ++again) {
    auto memory = JobMemory::create(kRanks).or_throw();
    std::vector<std::int64_t> made(kRanks);
    std::vector<Round> held(kRanks);
    std::vector<std::vector<std::int64_t>> sums(kRanks);  // by round
    std::vector<std::int64_t> carried(kRanks);
    std::atomic<Round> most = 0;
    std::atomic<bool> change = false;  // one is frozen, so all are to be
    std::barrier<> all_have_reported(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank, again] {
        const auto me = static_cast<std::size_t>(rank);
        ShmTransport transport(memory, rank);
        const SteadyClock clock;
        Engine engine(transport, clock);
        PartialAllreduce allreduce(engine, kCarriedBuckets,
                                   {.policy = Policy::at_least(2),
                                    .max_lag = 3,
                                    .seats = std::min(GetParam(), kRanks),
                                    .members_change = true});
        EngineDriver driver(engine, {.spin = 0ns});
        std::atomic<int> deposits = 0;
        std::thread beside([&] {
          while (deposits.load() < 3 + again && !change.load()) std::this_thread::yield();
          change.store(true);
          engine.freeze();
          held[me] = allreduce.complete();
          Round seen = most.load();
          while (seen < held[me] && !most.compare_exchange_weak(seen, held[me])) {
          }
        });
        const auto apply = [&](const RoundResult& result) {
          EXPECT_EQ(result.round, sums[me].size());
          sums[me].push_back(result.empty() ? 0 : result.as<std::int64_t>(0)[0]);
        };
        for (;;) {
          made[me] += deposits + 1;
          deposit_number(allreduce, deposits + 1);
          ++deposits;
          if (rank == 0) {
            while (deposits == 3 + again && !engine.frozen()) std::this_thread::yield();  // it computes
          }
          const auto result = allreduce.exchange(driver, driver.deadline(60s), apply);
          if (result) continue;
          EXPECT_EQ(result.error().code, Errc::members_changed) << result.error().message;
          break;
        }
        beside.join();
        EXPECT_EQ(sums[me].size(), held[me]);
        all_have_reported.arrive_and_wait();
        for (const auto& deposit : allreduce.take_out(most).deposits) carried[me] += number_in(deposit);
        for (Round round = sums[me].size(); round > 0 && round + 3 > most; --round) {
          const auto kept = allreduce.result_of(round - 1);
          EXPECT_TRUE(kept && (kept->empty() || kept->as<std::int64_t>(0)[0] == sums[me][round - 1]));
        }
        all_have_reported.arrive_and_wait();
        memory.leave(rank);
      });
    }
    for (auto& thread : threads) thread.join();
    std::int64_t all_made = 0, all_there = 0;
    const auto holder = static_cast<std::size_t>(std::ranges::max_element(held) - held.begin());
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_LT(made[rank], kWide);
      all_made += made[rank];
      all_there += carried[rank];
      ASSERT_LE(sums[rank].size(), sums[holder].size());
      EXPECT_TRUE(std::equal(sums[rank].begin(), sums[rank].end(), sums[holder].begin()));
    }
    for (const std::int64_t sum : sums[holder]) all_there += sum;
    EXPECT_EQ(all_there, all_made);
  }
}

/// A rank without batches takes a round, and meanwhile another one is completed and it is frozen: it takes that, too,
/// which it says to hold.
TEST_P(PartialCarried, FinishTakesAllThatCountsAlsoWhereItIsFrozenAsItTakesARound) {
  std::atomic<bool> takes_one = false, over = false;
  run_thread_job(2, [&](Engine& engine) {
    PartialAllreduce allreduce(engine, kCarriedBuckets, {.seats = GetParam(), .members_change = true});
    EngineDriver driver(engine, {.spin = 0ns});
    if (engine.rank() == 1) {
      deposit_number(allreduce, 1);
      EXPECT_TRUE(allreduce.exchange(driver, driver.deadline(60s), kIgnoreCarried));
      while (!takes_one) std::this_thread::yield();
      deposit_number(allreduce, 2);
      while (!over && !allreduce.exchange(driver, driver.deadline(10ms), kIgnoreCarried)) {
      }
      while (!over) std::this_thread::yield();
      return true;
    }
    std::vector<std::int64_t> sums;
    const auto done = allreduce.finish(driver, driver.deadline(60s), [&](const RoundResult& result) {
      sums.push_back(result.as<std::int64_t>(0)[0]);
      if (takes_one.exchange(true)) return;
      const PartialProbe probe(allreduce);
      EXPECT_TRUE(driver.wait([&] { return probe.complete() == 2; }, driver.deadline(60s)));
      std::jthread([&] { engine.freeze(); }).join();
    });
    EXPECT_EQ(done.error().code, Errc::members_changed);
    EXPECT_EQ(allreduce.complete(), 2u);
    EXPECT_EQ(sums, (std::vector<std::int64_t>{1, 2}));
    over = true;
    return true;
  });
}

INSTANTIATE_TEST_SUITE_P(Over, PartialCarried, testing::Values(0, 1, 2));

TEST(PartialCarriedOptions, AreRefusedWhereNothingCanBeCarried) {
  run_thread_job(1, [](Engine& engine) {
    const auto make = [&](const PartialOptions& options) {
      return [&engine, options] { PartialAllreduce(engine, kCarriedBuckets, options); };
    };
    EXPECT_THAT(make({.delivery = Delivery::latest, .members_change = true}),
                ThrowsMessage<UsageError>(HasSubstr("members_change with delivery latest")));
    EXPECT_THAT(make({.buckets_per_round = 1, .members_change = true}),
                ThrowsMessage<UsageError>(HasSubstr("members_change with buckets_per_round")));
    EXPECT_THAT(make({.rounds_before = 3}), ThrowsMessage<UsageError>(HasSubstr("without members_change")));
    PartialAllreduce allreduce(engine, kCarriedBuckets, {.members_change = true});
    EXPECT_THAT([&] { allreduce.begin_deposit(allreduce.acquire(), {}); },
                ThrowsMessage<UsageError>(HasSubstr("where members may change")));
    EXPECT_THAT([&] { allreduce.put_in({{{.facts = {}, .buckets = {{std::byte{}}}}}}); },
                ThrowsMessage<UsageError>(HasSubstr("bucket 0 has 1 bytes")));
    return true;
  });
}

}  // namespace
}  // namespace stretto
