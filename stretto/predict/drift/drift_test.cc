#include "stretto/predict/drift/drift.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace stretto {

namespace {

std::vector<float> all(const StepTimes& times) {
  std::vector<float> out;
  for (std::size_t i = 0; i < times.steps(); ++i) out.insert(out.end(), times.step(i).begin(), times.step(i).end());
  return out;
}

StepWindow window_of(const std::vector<std::vector<float>>& ranks) {
  StepWindow window(static_cast<int>(ranks.size()));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) window.add(static_cast<int>(rank), ranks[rank]);
  return window;
}

TEST(StepWindow, KeepsTheStepsOfEachRankInTheirOrder) {
  StepWindow window = window_of({{1, 2}, {5, 6}});
  window.add(0, std::vector<float>{3});
  window.add(1, std::vector<float>{7});
  EXPECT_EQ(window.total(), 6u);
  EXPECT_EQ(all(window.times(10)), (std::vector<float>{1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(all(window.times(2)), (std::vector<float>{1, 5, 2, 6}));
}

TEST(StepWindow, ARankWithFewerStepsMakesThemAgain) {
  const StepWindow window = window_of({{1, 2, 3}, {9, 8}});
  EXPECT_EQ(window.total(), 5u);
  EXPECT_EQ(window.fewest(), 2u);
  EXPECT_EQ(all(window.times(10)), (std::vector<float>{1, 9, 2, 8, 3, 9}));
}

TEST(StepWindow, BeginsAgain) {
  StepWindow window = window_of({{1}, {1}});
  window.clear();
  EXPECT_EQ(window.total(), 0u);
  EXPECT_EQ(window.fewest(), 0u);
}

/// A letter for each measurement: l where the rate has left its prediction, b where it is back.
std::string turns(const std::vector<double>& rates) {
  DriftDetector detector(100);
  std::string letters;
  for (const double rate : rates) letters += ".lb"[static_cast<int>(detector.take(rate))];
  return letters;
}

TEST(DriftDetector, LeavesAfterTwoMeasurementsOnTheSameSide) {
  EXPECT_EQ(turns({100, 89, 89, 89}), "..l.");
  EXPECT_EQ(turns({100, 111, 111, 111}), "..l.");
  EXPECT_EQ(turns({89, 100, 89, 100, 111}), ".....") << "none of them twice";
  EXPECT_EQ(turns({89, 111, 89, 111}), "....") << "noise, not a drift";
}

TEST(DriftDetector, TenPercentAreNoDrift) {
  EXPECT_EQ(turns({90, 90, 90, 110, 110, 110}), "......");
}

TEST(DriftDetector, IsBackAfterTwoMeasurementsNearThePrediction) {
  EXPECT_EQ(turns({60, 60, 95, 105, 100}), ".l.b.");
  EXPECT_EQ(turns({88, 88, 93, 93, 93, 93}), ".l....") << "between both limits what was said last holds";
  EXPECT_EQ(turns({88, 88, 95, 94, 95, 95}), ".l...b");
}

TEST(DriftDetector, TellsOfEachDriftOnce) {
  EXPECT_EQ(turns({60, 60, 60, 89, 60, 66, 54}), ".l.....");
  EXPECT_EQ(turns({60, 60, 100, 100, 100, 140, 140}), ".l.b..l");
}

TEST(DriftDetector, LeavesAnewWhereTheRateMovesAgain) {
  EXPECT_EQ(turns({60, 60, 30, 30, 30}), ".l.l.");
  EXPECT_EQ(turns({60, 60, 140, 140}), ".l.l") << "to the other side";
  EXPECT_EQ(turns({60, 60, 30, 60, 30, 60}), ".l....") << "none of them twice";
  EXPECT_EQ(turns({60, 60, 92, 92, 92}), ".l.b.") << "where it is, it would not have left";
  EXPECT_EQ(turns({60, 60, 89, 91, 91}), ".l.b.");
}

TEST(DriftDetector, KnowsInWhichStateItIs) {
  DriftDetector detector(100);
  detector.take(50);
  EXPECT_FALSE(detector.drifting());
  detector.take(50);
  EXPECT_TRUE(detector.drifting());
}

using Kind = DriftCause::Kind;

/// Every rank waits for the slowest of a step.
constexpr auto kSynchronous = [](const StepTimes& occupied) {
  double time = 0;
  for (std::size_t i = 0; i < occupied.steps(); ++i) time += static_cast<double>(std::ranges::max(occupied.step(i)));
  return static_cast<double>(occupied.ranks()) * static_cast<double>(occupied.steps()) / time;
};

/// Nobody waits.
constexpr auto kAsynchronous = [](const StepTimes& occupied) {
  double rate = 0;
  for (int rank = 0; rank < occupied.ranks(); ++rank) {
    double time = 0;
    for (std::size_t i = 0; i < occupied.steps(); ++i) {
      time += static_cast<double>(occupied.step(i)[static_cast<std::size_t>(rank)]);
    }
    rate += static_cast<double>(occupied.steps()) / time;
  }
  return rate;
};

/// Four ranks of which each takes a second a step but where `times` says otherwise; a round costs `round_cost`.
RunInputs inputs(std::vector<float> times, double round_cost = 0.25) {
  return {{4, std::move(times)}, round_cost};
}

const RunInputs kBefore = inputs({1, 1, 1, 1});

/// The cause by which a run whose inputs have changed is as fast as these inputs say.
DriftCause cause(const RunInputs& before, const RunInputs& now, PredictRate rate) {
  return cause_of_drift(before, now.computed, rate(before.occupied()), rate(now.occupied()), rate);
}

TEST(RunInputs, WhatIsMissingFromAStepIsWhatItsRoundCosts) {
  const StepTimes times{2, {1, 3, 2, 1}};
  // Five seconds of waiting for the slowest in two steps.
  EXPECT_EQ(inputs_of(times, 4 / 5.5, kSynchronous).round_cost, 0.25);
  EXPECT_EQ(inputs_of(times, 4 / 5.0, kSynchronous).round_cost, 0);
  EXPECT_EQ(inputs_of(times, 4 / 4.5, kSynchronous).round_cost, 0) << "no time is missing";
  const StepTimes equal{2, {1, 1}};
  EXPECT_EQ(inputs_of(equal, 2 / 1.25, kAsynchronous).round_cost, 0.25);
  // Not exact: ranks that do not wait have steps of different length.
  const RunInputs unequal{{2, {1, 3}}, 0.5};
  const double rate = kAsynchronous(unequal.occupied());
  EXPECT_NEAR(kAsynchronous(inputs_of(unequal.computed, rate, kAsynchronous).occupied()), rate, 0.005 * rate);
}

TEST(DriftCause, OneRankIsNamed) {
  for (const PredictRate rate : {PredictRate(kSynchronous), PredictRate(kAsynchronous)}) {
    const DriftCause slower = cause(kBefore, inputs({1, 1, 1, 3}), rate);
    EXPECT_EQ(slower.kind, Kind::rank);
    EXPECT_EQ(slower.rank, 3);
    EXPECT_EQ(slower.ratio, 3);
    EXPECT_STREQ(slower.name(), "rank");
    const DriftCause faster = cause(inputs({1, 2, 1, 1}), kBefore, rate);
    EXPECT_EQ(faster.kind, Kind::rank);
    EXPECT_EQ(faster.rank, 1);
    EXPECT_EQ(faster.ratio, 0.5);
  }
}

TEST(DriftCause, AllRanksAreTheirComputing) {
  for (const PredictRate rate : {PredictRate(kSynchronous), PredictRate(kAsynchronous)}) {
    const DriftCause slower = cause(kBefore, inputs({2, 2, 2, 2}), rate);
    EXPECT_EQ(slower.kind, Kind::compute);
    EXPECT_FALSE(slower.apart);
    EXPECT_EQ(slower.rank, -1);
    EXPECT_EQ(slower.ratio, 2);
    EXPECT_EQ(cause(kBefore, inputs({2, 2.5, 2, 2}), rate).kind, Kind::compute) << "one of them a little more";
    EXPECT_EQ(cause(kBefore, inputs({0.5, 0.5, 0.5, 0.5}), rate).kind, Kind::compute);
  }
}

// under synchronous training one slow rank would explain all. It does not: the other one is as slow.
TEST(DriftCause, TwoRanksAreNotOne) {
  EXPECT_EQ(cause(kBefore, inputs({1, 3, 1, 3}), kSynchronous).kind, Kind::compute);
  EXPECT_EQ(cause({{2, {1, 1}}, 0}, {{2, {2, 2}}, 0}, kAsynchronous).kind, Kind::compute);
}

// The means are the same. In each step some rank is late, another one each time.
TEST(DriftCause, RanksThatDriftApartAreTheirComputing) {
  const RunInputs now = inputs({0.5, 0.5, 0.5, 2.5, 2.5, 0.5, 0.5, 0.5, 0.5, 2.5, 0.5, 0.5, 0.5, 0.5, 2.5, 0.5});
  const DriftCause found = cause(inputs({1.5, 1, 1, 0.5}), now, kSynchronous);
  EXPECT_EQ(found.kind, Kind::compute);
  EXPECT_EQ(found.ratio, 1);
  EXPECT_EQ(found.skew_ratio, 2);
  EXPECT_TRUE(found.apart);
}

TEST(DriftCause, WhatComputingDoesNotExplainAreTheRounds) {
  const DriftCause found = cause(kBefore, inputs({1, 1, 1, 1}, 0.5), kSynchronous);
  EXPECT_EQ(found.kind, Kind::rounds);
  EXPECT_EQ(found.ratio, 2);
  EXPECT_EQ(found.predicted_round, 0.25);
  EXPECT_EQ(found.measured_round, 0.5);
  // Ranks are slower, too, by less than half of it.
  EXPECT_EQ(cause(kBefore, inputs({1.0625, 1.0625, 1.0625, 1.0625}, 0.5), kSynchronous).kind, Kind::rounds);
  EXPECT_EQ(cause(kBefore, inputs({1.5, 1.5, 1.5, 1.5}, 0.5), kSynchronous).kind, Kind::compute);
}

// The slow rank of a synchronous job does as before; a faster one that becomes slower, but not as slow, costs nothing.
TEST(DriftCause, ARankThatNobodyWaitsForIsNoCause) {
  const RunInputs before = inputs({1, 1, 1, 4}), now = inputs({3, 1, 1, 4}, 2);
  EXPECT_EQ(cause(before, now, kSynchronous).kind, Kind::rounds);
}

TEST(DriftCause, OneRankByItself) {
  const RunInputs before{{1, {1}}, 0}, now{{1, {2}}, 0};
  EXPECT_EQ(cause(before, now, kSynchronous).kind, Kind::compute);
}

}  // namespace

}  // namespace stretto
