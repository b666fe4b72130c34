#include "command/predict/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace stretto::command {
namespace {

using ::testing::DoubleNear;
using ::testing::Optional;

Trial trial(const char* algorithm, std::vector<double> rates, double fresh, double stale) {
  return {.choice = {algorithm}, .rates = std::move(rates), .fresh_share = fresh, .staleness_mean = stale};
}

TEST(Advice, TakesTheFastest) {
  const std::vector<Trial> trials = {trial("sync", {10, 10, 10}, 1, 0), trial("eager-solo", {14, 15, 14}, 0.3, 2)};
  EXPECT_EQ(recommended(trials).choice.algorithm, "eager-solo");
}

TEST(Advice, TakesTheFreshestOfThoseThatAreAsFast) {
  const std::vector<Trial> trials = {trial("eager-solo", {100, 100, 100}, 0.3, 2), trial("a", {98, 98, 98}, 1, 0),
                                     trial("b", {99.5, 99.5, 99.5}, 0.8, 0.5),
                                     trial("c", {99.9, 99.9, 99.9}, 0.8, 0.9)};
  EXPECT_EQ(recommended(trials).choice.algorithm, "b");
}

TEST(Advice, TakesContributionsThatNobodyCountsAsFresh) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Trial> trials = {trial("eager-solo", {100, 100}, 0.9, 1), trial("local", {100, 99.5}, none, none)};
  EXPECT_EQ(recommended(trials).choice.algorithm, "local");
}

TEST(Advice, GainsAreThoseOfTheSameReplicas) {
  const Interval twice = gain(trial("a", {2, 20, 200}, 1, 0), trial("b", {1, 10, 100}, 1, 0));
  EXPECT_EQ(twice.estimate, 2);
  EXPECT_EQ(twice.low, 2);
  EXPECT_EQ(twice.high, 2);
}

TEST(Advice, CrossesOverWhereTheGainIsWorthwhile) {
  EXPECT_THAT(crossover({{0, 1.0}, {0.010, 1.0}, {0.030, 1.2}}), Optional(DoubleNear(0.015, 1e-12)));
  EXPECT_THAT(crossover({{0, 1.1}, {0.010, 1.0}}), Optional(0.0));
  EXPECT_EQ(crossover({{0, 1.0}, {0.010, 1.04}}), std::nullopt);
  EXPECT_EQ(crossover({}), std::nullopt);
}

}  // namespace
}  // namespace stretto::command
