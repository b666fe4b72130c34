// Buckets with rounds of their own, over real shared memory: threads as ranks, integer payloads with exact sums.

#include "stretto/collective/rounds/bucket_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "stretto/base/random.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/testing/thread_job.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int kBuckets = 3;

struct Job {
  int ranks = 4;
  PartialOptions options;
  std::uint64_t steps = 60;
  std::uint64_t seed = 5;
  bool bucketwise = false;
  std::uint64_t count = 40;  // elements of a bucket
};

/// What one rank saw.
struct Seen {
  std::vector<std::uint64_t> sums = std::vector<std::uint64_t>(kBuckets);     // of each bucket's results, element 0
  std::vector<std::uint64_t> batches = std::vector<std::uint64_t>(kBuckets);  // of each bucket's rounds
  std::uint64_t history = 0;                                                  // hash of all results and headers
  Round rounds = 0;
  int split = 0;  // rounds whose buckets have summed different batches
  std::string fault;
};

std::uint64_t steps_of(const Job& job, int rank) {
  return job.steps + Random(job.seed, static_cast<std::uint64_t>(rank)).below(9);  // unequal numbers of steps
}

std::uint64_t value(const Job& job, int rank, std::uint64_t step) {
  return random_bits(job.seed, static_cast<std::uint64_t>(rank), step);
}

void see(const Job& job, const RoundResult& result, Seen& seen) {
  if (result.round != seen.rounds++) seen.fault = "out of order";
  bool split = false;
  for (int b = 0; b < kBuckets; ++b) {
    const auto at = static_cast<std::size_t>(b);
    const RoundHeader& header = result.header_of(b);
    seen.batches[at] += header.batches;
    split |= header.batches != result.header->batches || header.sum_of_bases != result.header->sum_of_bases;
    if (header.max_staleness(result.round) > static_cast<std::uint64_t>(job.options.max_lag)) seen.fault = "too old";
    if (header.empty() != result.buckets[at].empty()) seen.fault = "a sum of nothing";
    if (result.buckets[at].empty()) continue;
    const auto sum = result.as<std::uint64_t>(b);
    if (std::ranges::any_of(sum, [&](std::uint64_t x) { return x != sum[0]; })) seen.fault = "torn";
    seen.sums[at] += sum[0];
    seen.history = random_bits(seen.history, sum[0], header.batches * 4 + at);
  }
  if (split) ++seen.split;
  if (result.policy.kind != Policy::Kind::full) return;
  for (const std::uint64_t batches : seen.batches) {
    if (batches != seen.batches[0]) seen.fault = "a full round leaves something pending in one bucket";
  }
}

void run_rank(Engine& engine, const Job& job, Seen& seen) {
  PartialAllreduce allreduce(engine, std::vector<BucketSpec>(kBuckets, {DataType::int64, job.count}), job.options);
  EngineDriver driver(engine, {.spin = 0ns});
  const auto apply = [&](const RoundResult& result) { see(job, result, seen); };
  Random random(job.seed + 1, static_cast<std::uint64_t>(engine.rank()));
  for (std::uint64_t step = 0; step < steps_of(job, engine.rank()) && seen.fault.empty(); ++step) {
    if (random.chance(0.1)) std::this_thread::sleep_for(std::chrono::microseconds(random.below(1000)));
    Contribution& c = allreduce.acquire();
    if (job.bucketwise) allreduce.begin_deposit(c, {});
    for (int b = 0; b < kBuckets; ++b) {
      for (auto& x : c.as<std::uint64_t>(b)) x = value(job, engine.rank(), step);
      if (job.bucketwise) allreduce.bucket_ready(c, b);
    }
    if (!job.bucketwise) allreduce.deposit(c, {});
    const auto result = allreduce.exchange(driver, driver.deadline(60s), apply);
    if (!result) seen.fault = result.error().message;
  }
  const auto result = allreduce.finish(driver, driver.deadline(60s), apply);
  if (!result) seen.fault = result.error().message;
}

/// On a board (0) and by messages (1).
class BucketRoundsTest : public testing::TestWithParam<int> {
 protected:
  /// Every batch once in each bucket, and the same on all ranks. Returns the rounds that were split.
  int expect_exact(Job job) const {
    job.options.seats = GetParam();
    job.options.buckets_per_round = 1;
    std::vector<Seen> seen(static_cast<std::size_t>(job.ranks));
    run_thread_job(job.ranks, [&](Engine& engine) {
      run_rank(engine, job, seen[static_cast<std::size_t>(engine.rank())]);
      return true;
    });
    std::uint64_t sum = 0, batches = 0;
    for (int rank = 0; rank < job.ranks; ++rank) {
      for (std::uint64_t step = 0; step < steps_of(job, rank); ++step) sum += value(job, rank, step);
      batches += steps_of(job, rank);
    }
    for (const Seen& mine : seen) {
      EXPECT_EQ(mine.fault, "");
      EXPECT_EQ(mine.rounds, seen[0].rounds);
      EXPECT_EQ(mine.history, seen[0].history);
      EXPECT_EQ(mine.sums, std::vector<std::uint64_t>(kBuckets, sum));
      EXPECT_EQ(mine.batches, std::vector<std::uint64_t>(kBuckets, batches));
    }
    return seen[0].split;
  }
};

TEST_P(BucketRoundsTest, LoseNothingUnderAnyPolicy) {
  int split = 0;
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (const Policy& policy : {Policy::solo(), Policy::majority(), Policy::at_least((ranks + 1) / 2),
                                 Policy::deadline(1, 100us), Policy::full()}) {
      for (const std::uint64_t seed : {1u, 2u}) {
        split += expect_exact({.ranks = ranks, .options = {.policy = policy, .seed = seed}, .seed = seed});
      }
    }
  }
  EXPECT_GT(split, 0) << "no contribution was in two rounds";
}

TEST_P(BucketRoundsTest, HaveFullRoundsTogether) {
  for (const Policy& policy : {Policy::solo(), Policy::majority(), Policy::at_least(2)}) {
    expect_exact({.ranks = 4, .options = {.policy = policy, .full_every = 24}});
  }
}

TEST_P(BucketRoundsTest, WithTheSmallestLag) {
  expect_exact({.ranks = 3, .options = {.policy = Policy::solo(), .max_lag = 1}});
  expect_exact({.ranks = 3, .options = {.policy = Policy::at_least(2), .full_every = 16, .max_lag = 1}});
}

TEST_P(BucketRoundsTest, AreDepositedOneByOne) {
  for (const Policy& policy : {Policy::solo(), Policy::at_least(2), Policy::full()}) {
    expect_exact({.ranks = 3, .options = {.policy = policy, .full_every = 32}, .bucketwise = true});
  }
}

TEST_P(BucketRoundsTest, OfLargeBucketsInTheOrderOfArrival) {
  expect_exact(
      {.ranks = 3, .options = {.policy = Policy::solo(), .order = SumOrder::arrival}, .steps = 15, .count = 50'000});
}

/// All ranks take part in each round: the bits of the sums, and the headers of all rounds.
std::pair<std::vector<std::uint32_t>, std::uint64_t> full_rounds(int ranks, int seats, int buckets_per_round,
                                                                 const Policy& policy) {
  std::vector<std::uint32_t> bits;
  std::uint64_t batches = 0;
  run_thread_job(ranks, [&](Engine& engine) {
    PartialAllreduce allreduce(engine, {{DataType::float32, 300}, {DataType::float32, 7}, {DataType::float32, 9000}},
                               {.policy = policy, .seats = seats, .buckets_per_round = buckets_per_round});
    EngineDriver driver(engine);
    Random random(8, static_cast<std::uint64_t>(engine.rank()));
    const auto keep = [&](const RoundResult& result) {
      if (engine.rank() != 0) return;
      batches += result.header->batches;
      for (int b = 0; b < kBuckets && !result.empty(); ++b) {
        for (const std::uint32_t x : result.as<std::uint32_t>(b)) bits.push_back(x);
      }
    };
    for (int step = 0; step < 6; ++step) {
      Contribution& c = allreduce.acquire();
      for (int b = 0; b < kBuckets; ++b) {
        for (float& x : c.as<float>(b)) x = static_cast<float>(random.normal());
      }
      allreduce.deposit(c, {});
      EXPECT_TRUE(allreduce.exchange(driver, driver.deadline(60s), keep));
    }
    EXPECT_TRUE(allreduce.finish(driver, driver.deadline(60s), keep));
    return true;
  });
  return {bits, batches};
}

TEST_P(BucketRoundsTest, OfAllRanksHaveTheBitsOfOneRound) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    const auto one = full_rounds(ranks, GetParam(), 0, Policy::full());
    EXPECT_EQ(one.first.size(), 6u * 9307);
    for (const int buckets : {1, 2}) EXPECT_EQ(full_rounds(ranks, GetParam(), buckets, Policy::full()), one) << buckets;
    EXPECT_EQ(full_rounds(ranks, GetParam(), 1, Policy::at_least(ranks)), one);
  }
}

TEST_P(BucketRoundsTest, FailTogether) {
  run_thread_job(3, [seats = GetParam()](Engine& engine) {
    PartialAllreduce allreduce(engine, std::vector<BucketSpec>(kBuckets, {DataType::int64, 1}),
                               {.policy = Policy::at_least(3), .seats = seats, .buckets_per_round = 1});
    EngineDriver driver(engine);
    if (engine.rank() == 2) {
      allreduce.abort(driver, {Errc::aborted, "enough", 2});
    } else {
      allreduce.deposit(allreduce.acquire(), {});
    }
    const auto result = allreduce.exchange(driver, driver.deadline(60s), [](const RoundResult&) {});
    EXPECT_FALSE(result);
    EXPECT_THAT(result.error().message, HasSubstr("enough"));
    return true;
  });
}

std::string name_of(const testing::TestParamInfo<int>& seats) {
  return seats.param == 0 ? "board" : "messages";
}

INSTANTIATE_TEST_SUITE_P(Over, BucketRoundsTest, testing::Values(0, 1), name_of);

TEST(BucketRoundsOptions, ThatDoNotFitAreNamed) {
  const auto refusal = [](const PartialOptions& options) {
    std::string said;
    run_thread_job(4, [&](Engine& engine) {
      try {
        PartialAllreduce allreduce(engine, {{DataType::int64, 1}}, options);
      } catch (const UsageError& error) {
        if (engine.rank() == 0) said = error.what();
      }
      return true;
    });
    return said;
  };
  EXPECT_EQ(refusal({.buckets_per_round = -1}),
            "buckets_per_round -1 is impossible: use at least 1, or 0 for rounds of all buckets");
  EXPECT_EQ(refusal({.delivery = Delivery::latest, .buckets_per_round = 1}),
            "buckets_per_round 1 with delivery latest: use every");
  EXPECT_EQ(refusal({.seats = 2, .buckets_per_round = 1}),
            "buckets_per_round 1 with seats 2: use 1, or 0 for one board");
}

}  // namespace
}  // namespace stretto
