#include "stretto/train/profile/pass_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>

namespace stretto {
namespace {

using ::testing::ElementsAre;

const double kNever = std::nan("");

TEST(PassShares, DivideAPassAsItWasTraced) {
  PassShares shares({1, 1});
  const PassMark marks[] = {{1, 0}, {4, 1}};
  shares.add(marks, {kNever, kNever});
  EXPECT_THAT(shares.divide({kNever, kNever}, 8), ElementsAre(2, 6));
}

TEST(PassShares, WhatIsNotKnownBelongsToTheNextThatIs) {
  PassShares shares({1, 1});
  const PassMark marks[] = {{1, -1}, {2, 0}, {5, -1}, {6, 1}, {8, -1}};
  shares.add(marks, {kNever, kNever});
  EXPECT_THAT(shares.divide({kNever, kNever}, 8), ElementsAre(2, 6));
}

TEST(PassShares, KeepWhenGradientsWereReady) {
  PassShares shares({1, 1, 1});
  // Backward: layer 2 alone, then a part of layer 1 that holds nothing, then layer 0; a second of something behind it.
  const PassMark marks[] = {{1, 2}, {2, 1}, {4, 0}, {5, 0}};
  shares.add(marks, {4, kNever, 1});
  EXPECT_THAT(shares.divide({9, kNever, 3}, 10), ElementsAre(4 + 1, 2, 3));
}

TEST(PassShares, DivideAllAtOnceWhereTheOrderIsAnother) {
  PassShares shares({1, 1});
  const PassMark marks[] = {{1, 1}, {4, 0}};
  shares.add(marks, {4, 1});
  EXPECT_THAT(shares.divide({4, 6}, 8), ElementsAre(6, 2));
  EXPECT_THAT(shares.divide({kNever, 6}, 8), ElementsAre(6, 2));
}

TEST(PassShares, TakeTheMedianOfSeveralTraces) {
  PassShares shares({1, 1});
  const PassMark first[] = {{1, 0}, {4, 1}}, lost_its_core[] = {{900, 0}, {903, 1}}, third[] = {{3, 0}, {6, 1}};
  for (const auto& marks : {first, lost_its_core, third}) shares.add(std::span(marks, 2), {kNever, kNever});
  EXPECT_THAT(shares.divide({kNever, kNever}, 4), ElementsAre(2, 2));
}

TEST(PassShares, WithoutATraceGoByOtherNumbers) {
  PassShares shares({1, 3});
  EXPECT_THAT(shares.divide({kNever, kNever}, 8), ElementsAre(2, 6));
  shares.add({}, {kNever, kNever});
  EXPECT_THAT(shares.divide({kNever, kNever}, 8), ElementsAre(2, 6));
}

}  // namespace
}  // namespace stretto
