#include "stretto/base/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stretto {
namespace {

TEST(Random, IsAFunctionOfSeedStreamAndIndex) {
  EXPECT_EQ(random_bits(1, 2, 3), random_bits(1, 2, 3));
  EXPECT_NE(random_bits(1, 2, 3), random_bits(2, 2, 3));
  EXPECT_NE(random_bits(1, 2, 3), random_bits(1, 3, 3));
  EXPECT_NE(random_bits(1, 2, 3), random_bits(1, 2, 4));
  // Known answer of Philox 4x32-10 for counter 0 and key 0 (Random123's kat_vectors).
  EXPECT_EQ(random_bits(0, 0, 0), 0xe169c58d6627e8d5u);
}

TEST(Random, DrawsStayInRange) {
  Random random(7);
  for (int i = 0; i < 10000; ++i) {
    EXPECT_LT(random.below(5), 5u);
    const auto x = random.between(-2, 2);
    EXPECT_TRUE(x >= -2 && x <= 2);
    const auto y = random.log_uniform(1, 4096);
    EXPECT_TRUE(y >= 1 && y <= 4096);
    const double u = random.uniform();
    EXPECT_TRUE(u >= 0 && u < 1);
  }
}

TEST(Random, LogNormalHasTheMomentsAskedFor) {
  Random random(11);
  const int n = 200000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.log_normal(187, 97);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / n;
  EXPECT_NEAR(mean, 187, 2);
  EXPECT_NEAR(std::sqrt(squares / n - mean * mean), 97, 4);
}

}  // namespace
}  // namespace stretto
