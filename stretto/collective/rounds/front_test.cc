#include "stretto/collective/rounds/front.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace stretto {
namespace {

const std::vector<BucketSpec> kTwoBuckets = {{DataType::int64, 257}, {DataType::int64, 3}};

void fill(Contribution& c, std::int64_t value) {
  for (int b = 0; b < c.num_buckets(); ++b) {
    for (auto& x : c.as<std::int64_t>(b)) x = value;
  }
  c.facts = {.batches = 1, .samples = 2, .oldest_base = static_cast<std::uint64_t>(value), .sum_of_bases = 1};
}

void deposit(Front& front, std::int64_t value) {
  Contribution& c = front.acquire();
  fill(c, value);
  auto deposit = front.deposit(c);
  while (!deposit.step()) {
  }
}

/// The value all elements share; fails if they do not.
std::int64_t value_of(Contribution& c) {
  const std::int64_t first = c.as<std::int64_t>(0)[0];
  for (int b = 0; b < c.num_buckets(); ++b) {
    for (auto x : c.as<std::int64_t>(b)) EXPECT_EQ(x, first) << "torn";
  }
  return first;
}

TEST(Front, AddsUpWhatNobodyHasTaken) {
  Front front(kTwoBuckets, 4, ReduceOp::sum);
  EXPECT_EQ(front.take(), nullptr);
  deposit(front, 5);
  deposit(front, 3);
  deposit(front, 4);
  Contribution* taken = front.take();
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(value_of(*taken), 12);
  EXPECT_EQ(taken->facts.batches, 3u);
  EXPECT_EQ(taken->facts.samples, 6u);
  EXPECT_EQ(taken->facts.oldest_base, 3u);
  EXPECT_EQ(front.take(), nullptr);
}

TEST(Front, CombinesWithTheReductionOfTheCollective) {
  Front front(kTwoBuckets, 4, ReduceOp::max);
  deposit(front, 5);
  deposit(front, 3);
  EXPECT_EQ(value_of(*front.take()), 5);
}

TEST(Front, LosesNothingWhenTheEngineTakesBetweenTheStepsOfADeposit) {
  for (int steps_before = 0; steps_before < 4; ++steps_before) {
    Front front(kTwoBuckets, 5, ReduceOp::sum);
    deposit(front, 1);
    Contribution& c = front.acquire();
    fill(c, 10);
    auto second = front.deposit(c);
    bool done = false;
    for (int i = 0; i < steps_before && !done; ++i) done = second.step();
    Contribution* first = front.take();
    const std::int64_t before = first == nullptr ? 0 : value_of(*first);
    while (!done) done = second.step();
    Contribution* rest = front.take();
    EXPECT_EQ(before + (rest == nullptr ? 0 : value_of(*rest)), 11) << steps_before;
  }
}

TEST(Front, ConservesEveryDepositAgainstARealEngineThread) {
  constexpr int kDeposits = 20000;
  Front front(kTwoBuckets, 7, ReduceOp::sum);
  std::atomic<bool> stop{false};
  std::int64_t taken_sum = 0;
  std::uint64_t taken_batches = 0;
  std::thread engine([&] {
    std::vector<Contribution*> in_flight;
    for (bool last = false;;) {
      const bool stopping = stop.load();
      if (Contribution* x = front.take()) {
        in_flight.push_back(x);
      } else if (stopping && last) {
        break;
      }
      last = stopping;
      if (in_flight.size() == 4 || stopping) {
        for (Contribution* x : in_flight) {
          taken_sum += value_of(*x);
          taken_batches += x->facts.batches;
          front.give_back(x);
        }
        in_flight.clear();
      }
    }
  });
  for (int i = 1; i <= kDeposits; ++i) deposit(front, i);
  stop = true;
  engine.join();
  EXPECT_EQ(taken_batches, static_cast<std::uint64_t>(kDeposits));
  EXPECT_EQ(taken_sum, std::int64_t{kDeposits} * (kDeposits + 1) / 2);
}

}  // namespace
}  // namespace stretto
