#include "command/predict/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace stretto::command {

namespace {

using ::testing::DoubleNear;
using ::testing::Optional;

Trial trial(const char* algorithm, std::vector<double> rates, double unseen) {
  return {.choice = {algorithm}, .rates = std::move(rates), .unseen = unseen};
}

TEST(Advice, TakesTheFastest) {
  const std::vector<Trial> trials = {trial("sync", {10, 10, 10}, 0), trial("eager-solo", {14, 15, 14}, 2)};
  EXPECT_EQ(recommended(trials).choice.algorithm, "eager-solo");
}

TEST(Advice, TakesTheOneThatLeavesTheFewestUnseenOfThoseThatAreAsFast) {
  const std::vector<Trial> trials = {trial("eager-solo", {100, 100, 100}, 2), trial("a", {98, 98, 98}, 0),
                                     trial("b", {99.5, 99.5, 99.5}, 0.5), trial("c", {99.9, 99.9, 99.9}, 0.9)};
  EXPECT_EQ(recommended(trials).choice.algorithm, "b");
}

TEST(Advice, TakesWhatIsUnseenForTheSameWhateverTheFamily) {
  Trial quorum = trial("eager-quorum:2", {100, 100}, 2), servers = trial("ps-async", {100, 100}, 2.9);
  quorum.fresh_share = 0.5, quorum.staleness_mean = 0.5;
  servers.fresh_share = 1, servers.staleness_mean = 2.9;
  EXPECT_EQ(recommended({servers, quorum}).choice.algorithm, "eager-quorum:2");
}

TEST(Advice, TakesAModelOfWhichNothingIsKnownOnlyWhereItIsFaster) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(recommended({trial("wagma", {100, 100}, none), trial("eager-solo", {100, 99}, 3)}).choice.algorithm,
            "eager-solo");
  EXPECT_EQ(recommended({trial("wagma", {100, 100}, none), trial("eager-solo", {98, 98}, 3)}).choice.algorithm,
            "wagma");
}

TEST(Advice, GainsAreThoseOfTheSameReplicas) {
  const Interval twice = gain(trial("a", {2, 20, 200}, 0), trial("b", {1, 10, 100}, 0));
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

TEST(QuorumBound, IsThatOfTheTheorem) {
  EXPECT_EQ(quorum_bound(8, 4, 4), 0.5);  // √(4 · 4) / 8
  EXPECT_EQ(quorum_bound(5, 1, 1), 0.4);
  EXPECT_EQ(quorum_bound(8, 8, 3), 0);  // nobody is left out
  EXPECT_EQ(quorum_bound(8, 1, 0), 0);  // nobody is late
}

TEST(QuorumBound, GoesByTheRanksThatEachRoundTakesForCertain) {
  EXPECT_EQ(quorum_of({"sync"}, 8), 8);
  EXPECT_EQ(quorum_of({"eager-solo"}, 8), 1);
  EXPECT_EQ(quorum_of({"eager-majority"}, 8), 1);
  EXPECT_EQ(quorum_of({"eager-quorum"}, 8), 4);
  EXPECT_EQ(quorum_of({"eager-quorum:6"}, 8), 6);
  EXPECT_EQ(quorum_of({"eager-deadline:3,adaptive"}, 8), 3);
  for (const char* of_models : {"local", "local:quorum:4", "wagma:2", "ps-async", "diloco:solo"}) {
    EXPECT_EQ(quorum_of({of_models}, 8), 0) << of_models;
  }
}

TEST(QuorumBound, OfATrialHasTheOldestGradientThatWasSeen) {
  EXPECT_EQ(quorum_bound({.choice = {"eager-quorum:4"}, .staleness_max = 4}, 8), 0.5);
  EXPECT_TRUE(std::isnan(quorum_bound({.choice = {"local"}, .staleness_max = 4}, 8)));
}

}  // namespace

}  // namespace stretto::command
