// Ranks whose application code blocks, on a virtual clock: a thread for each rank, of which one runs at a time. What
// the interface Driver is for, beside EngineDriver.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/simulate/virtual_ranks.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// Runs `application` on every rank.
void run_virtually(int ranks, std::uint64_t seed, const PartialOptions& options,
                   const std::function<void(VirtualRank&, PartialAllreduce&)>& application) {
  SimulatedCluster cluster(ranks, {.jitter = 20us}, seed);
  VirtualRanks(cluster).run([&](VirtualRank& rank) {
    Engine engine(rank.transport(), rank.clock());
    rank.drive_engine(&engine);
    PartialAllreduce partial(engine, {{DataType::int64, 3}}, options);
    application(rank, partial);
  });
}

constexpr int kSteps = 12;

/// A training loop as an application writes it. Returns each rank's results: when, which round, what.
std::vector<std::string> train(int ranks, const Policy& policy, std::uint64_t seed) {
  std::vector<std::string> logs(static_cast<std::size_t>(ranks));
  run_virtually(ranks, seed, {.policy = policy, .max_lag = 3}, [&](VirtualRank& rank, PartialAllreduce& partial) {
    const int number = rank.rank();
    Random random(seed, 100 + static_cast<std::uint64_t>(number));
    std::int64_t total = 0;
    const auto apply = [&](const RoundResult& result) {
      const std::int64_t sum = result.empty() ? 0 : result.as<std::int64_t>(0)[2];
      total += sum;
      logs[static_cast<std::size_t>(number)] +=
          text(rank.clock().now().since_start.count(), ": ", result.round, " = ", sum, "\n");
    };
    for (int step = 0; step < kSteps; ++step) {
      rank.compute(Duration(static_cast<std::int64_t>(random.below(200'000))) * (number == 0 ? 5 : 1));
      Contribution& mine = partial.acquire();
      for (std::int64_t& element : mine.as<std::int64_t>(0)) element = number * 1000 + step;
      partial.deposit(mine, {.batches = 1, .samples = 1});
      ASSERT_TRUE(partial.exchange(rank, rank.deadline(10s), apply).ok());
    }
    ASSERT_TRUE(partial.finish(rank, rank.deadline(10s), apply).ok());
    EXPECT_EQ(total, ranks * (ranks - 1) / 2 * 1000 * kSteps + ranks * kSteps * (kSteps - 1) / 2);
  });
  return logs;
}

TEST(VirtualDriver, RunsBlockingApplicationsTheSameToTheBitForTheSameSeed) {
  for (const Policy& policy : {Policy::full(), Policy::solo(), Policy::majority(), Policy::at_least(2)}) {
    for (const int ranks : {1, 2, 5}) {
      const auto quorum = Policy::at_least(std::min(ranks, 2));
      const Policy& with = policy.kind == Policy::Kind::quorum ? quorum : policy;
      const auto once = train(ranks, with, 7);
      EXPECT_EQ(once, train(ranks, with, 7)) << with.to_string() << " with " << ranks << " ranks";
      EXPECT_NE(once, train(ranks, with, 8)) << with.to_string() << " with " << ranks << " ranks";
    }
  }
}

TEST(VirtualDriver, ADeadlinePassesOnTheVirtualClock) {
  run_virtually(2, 1, {.policy = Policy::full()}, [](VirtualRank& rank, PartialAllreduce& partial) {
    const auto apply = [](const RoundResult&) {};
    if (rank.rank() == 1) rank.compute(3600s);
    partial.deposit(partial.acquire(), {.batches = 1, .samples = 1});
    if (rank.rank() == 0) {
      const auto late = partial.exchange(rank, rank.deadline(5ms), apply);
      ASSERT_FALSE(late.ok());
      EXPECT_EQ(late.error().code, Errc::timeout);
      EXPECT_THAT(late.error().message, HasSubstr("rank 1"));
      EXPECT_LT(rank.clock().now().since_start, 1h);
    }
    ASSERT_TRUE(partial.exchange(rank, rank.deadline(7200s), apply).ok());
    EXPECT_GE(rank.clock().now().since_start, 1h);
    ASSERT_TRUE(partial.finish(rank, rank.deadline(7200s), apply).ok());
  });
}

}  // namespace
}  // namespace stretto
