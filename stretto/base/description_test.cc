#include "stretto/base/description.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

constexpr const char* kEnd = "; every rank must make the same collectives in the same order";

TEST(Description, HasOneHashOfItsWholeText) {
  // So it is on every machine: ranks of different builds compare it.
  EXPECT_EQ(hash_of("a sum\nbucket 0: 10 float32"), 5492606762488139208u);
  EXPECT_NE(hash_of("a sum\nbucket 0: 10 float32"), hash_of("a sum\nbucket 0: 11 float32"));
  EXPECT_NE(hash_of(std::string(10'000, 'x')), hash_of(std::string(9'999, 'x') + "y"));
}

TEST(Description, ADisagreementNamesBothAndTheFirstItemThatDiffers) {
  EXPECT_EQ(disagreement_between(2, "sum of 51", 0, "sum of 50"),
            std::string("rank 2 runs \"sum of 51\" where rank 0 runs \"sum of 50\"") + kEnd);
  EXPECT_EQ(
      disagreement_between(1, "a sum\nbucket 0: 10 float32\nbucket 1: 5 int64\nseed 1", 0,
                           "a sum\nbucket 0: 10 float32\nbucket 1: 5 float64\nseed 2"),
      std::string("rank 1 runs \"a sum\" where rank 0 runs \"a sum\"; rank 1 has \"bucket 1: 5 int64\", rank 0 has "
                  "\"bucket 1: 5 float64\"") +
          kEnd);
}

TEST(Description, WhatWasCutNamesNoItem) {
  EXPECT_EQ(disagreement_between(1, "a sum\nbucket 0: 10 float32\nbucket 1: 5 int64", 0, "a sum\nbucket 0: 10 float32"),
            std::string("rank 1 runs \"a sum\" where rank 0 runs \"a sum\"") + kEnd);
  EXPECT_EQ(disagreement_between(1, "", 0, "\n\n"), std::string("rank 1 runs \"\" where rank 0 runs \"\"") + kEnd);
}

TEST(Description, ALongFirstLineIsCutInAMessage) {
  EXPECT_EQ(words_of(std::string(201, 'x') + "\nitem"), std::string(200, 'x') + "...");
  EXPECT_EQ(words_of(std::string(200, 'x') + "\nitem"), std::string(200, 'x'));
}

}  // namespace
}  // namespace stretto
