#include "command/predict/quorum_bound.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stretto::command {
namespace {

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
