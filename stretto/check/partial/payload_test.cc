#include "stretto/check/partial/payload.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace stretto {
namespace {

Scenario scenario_of(int ranks, DataType type) {
  Scenario scenario;
  scenario.seed = 7;
  scenario.ranks = ranks;
  scenario.machines.members = Members(ranks);
  scenario.buckets = {{type, 40}, {type, 5}};
  return scenario;
}

/// The contribution of a rank that has made the deposits of `steps`, added up one after the other.
std::vector<float> brought(const Scenario& scenario, const Payload& payload, int rank, const std::vector<int>& steps) {
  std::vector<float> sum(scenario.buckets[0].count);
  for (const int step : steps) {
    Contribution deposit(scenario.buckets, 0);
    payload.fill(deposit, rank, static_cast<std::uint64_t>(step), 0, scenario.buckets.size());
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += deposit.as<float>(0)[j];
  }
  return sum;
}

RoundSum sum_of(const Scenario& scenario, const Payload& payload, const std::vector<std::vector<int>>& steps) {
  RoundSum sum(scenario, payload);
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    for (const int step : steps[static_cast<std::size_t>(rank)]) {
      sum.take(rank, payload.value(rank, static_cast<std::uint64_t>(step)));
    }
  }
  sum.settle();
  return sum;
}

TEST(Payload, DepositsOfARankAddUpExactlyInAnyOrder) {
  const Scenario scenario = scenario_of(3, DataType::float32);
  const Payload payload(scenario);
  std::vector<int> steps(120);
  std::iota(steps.begin(), steps.end(), 0);
  const auto ascending = brought(scenario, payload, 2, steps);
  std::reverse(steps.begin(), steps.end());
  EXPECT_EQ(ascending, brought(scenario, payload, 2, steps));
  EXPECT_TRUE(sum_of(scenario, payload, {{}, {}, steps}).is(0, std::as_bytes(std::span(ascending))));
}

/// Four ranks, of which the third brings nothing: (0 + 1) + 3. Any other tree shows in some element.
TEST(Payload, ExpectsTheFixedTreeAndTellsItFromAnother) {
  int told_apart = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Scenario scenario = scenario_of(4, DataType::float32);
    scenario.seed = seed;
    const Payload payload(scenario);
    const RoundSum sum = sum_of(scenario, payload, {{0, 1}, {0}, {}, {5}});
    const auto a = brought(scenario, payload, 0, {0, 1});
    const auto b = brought(scenario, payload, 1, {0});
    const auto d = brought(scenario, payload, 3, {5});
    std::vector<float> right(a.size()), other(a.size());
    for (std::size_t j = 0; j < a.size(); ++j) {
      right[j] = (a[j] + b[j]) + d[j];
      other[j] = a[j] + (b[j] + d[j]);
    }
    EXPECT_TRUE(sum.is(0, std::as_bytes(std::span(right))));
    if (!sum.is(0, std::as_bytes(std::span(other)))) ++told_apart;
  }
  EXPECT_GT(told_apart, 10);
}

/// Five ranks at boards of three: the tree of each board, then that of the boards.
TEST(Payload, SumsWithinEachBoardFirst) {
  Scenario scenario = scenario_of(5, DataType::float32);
  scenario.machines.over = Over::boards;
  scenario.options.seats = 3;
  const Payload payload(scenario);
  std::vector<std::vector<float>> of;
  for (int rank = 0; rank < 5; ++rank) of.push_back(brought(scenario, payload, rank, {0}));
  std::vector<float> right(of[0].size());
  for (std::size_t j = 0; j < right.size(); ++j) {
    right[j] = ((of[0][j] + of[1][j]) + of[2][j]) + (of[3][j] + of[4][j]);
  }
  EXPECT_TRUE(sum_of(scenario, payload, {{0}, {0}, {0}, {0}, {0}}).is(0, std::as_bytes(std::span(right))));
}

TEST(Payload, NoticesOneWrongBit) {
  for (const DataType type : {DataType::int64, DataType::float32}) {
    const Scenario scenario = scenario_of(2, type);
    const Payload payload(scenario);
    const RoundSum sum = sum_of(scenario, payload, {{3}, {}});
    Contribution deposit(scenario.buckets, 0);
    payload.fill(deposit, 0, 3, 0, scenario.buckets.size());
    const auto bucket = deposit.bucket(1);
    EXPECT_TRUE(sum.is(1, bucket));
    bucket[bucket.size() - 8] ^= std::byte{1};
    EXPECT_FALSE(sum.is(1, bucket));
  }
}

}  // namespace
}  // namespace stretto
