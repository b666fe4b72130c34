#include "stretto/train/recipes/momentum_exchange.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace stretto {
namespace {

using Vectors = std::vector<std::vector<double>>;

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// Whole numbers, which float32 holds as they are.
Vectors velocities(int nodes, std::size_t dimensions) {
  Random random(3);
  Vectors out(static_cast<std::size_t>(nodes));
  for (auto& one : out) {
    for (std::size_t k = 0; k < dimensions; ++k) one.push_back(static_cast<double>(random.between(-50, 50)));
  }
  return out;
}

TEST(MomentumExchange, TheDirectionIsOfLengthOneAndItsSeedsAlone) {
  const std::vector<double> one = random_direction(Random(1, 2), 7);
  EXPECT_NEAR(dot(one, one), 1, 1e-14);
  EXPECT_EQ(random_direction(Random(1, 2), 7), one);
  EXPECT_NE(random_direction(Random(1, 3), 7), one);
  EXPECT_EQ(std::abs(random_direction(Random(5), 1).front()), 1);
}

TEST(MomentumExchange, AlongAnAxisTwoNodesSwapWhatTheyHave) {
  std::vector<double> a{1, 2, 3}, b{10, 20, 30};
  const std::vector<double> direction{0, 1, 0};
  collide(a, b, direction);
  EXPECT_EQ(a, (std::vector<double>{1, 20, 3}));
  EXPECT_EQ(b, (std::vector<double>{10, 2, 30}));
  collide(a, b, direction);
  EXPECT_EQ(a, (std::vector<double>{1, 2, 3})) << "a second time undoes it";
}

TEST(MomentumExchange, NothingChangesAcrossTheDirection) {
  Vectors both = velocities(2, 9);
  const std::vector<double> before = both[0];
  const std::vector<double> direction = random_direction(Random(4), 9);
  collide(both[0], both[1], direction);
  std::vector<double> change(9);
  for (std::size_t k = 0; k < 9; ++k) change[k] = both[0][k] - before[k];
  const double along = dot(change, direction);
  for (std::size_t k = 0; k < 9; ++k) EXPECT_NEAR(change[k], along * direction[k], 1e-12);
}

TEST(MomentumExchange, ALineOfTwoIsACollisionAndALongerOneKeepsTheSums) {
  constexpr std::size_t kDimensions = 6;
  const std::vector<double> direction = random_direction(Random(8), kDimensions);
  for (const int nodes : {1, 2, 3, 5, 8}) {
    Vectors all = velocities(nodes, kDimensions), collided = all;
    std::vector<float> sum(kDimensions);
    double energy = 0, energy_after = 0;
    for (const auto& one : all) {
      for (std::size_t k = 0; k < kDimensions; ++k) sum[k] += static_cast<float>(one[k]);
      energy += dot(one, one);
    }
    std::vector<double> sum_after(kDimensions);
    for (auto& one : all) {
      const std::vector<float> own(one.begin(), one.end());
      const double turn = turn_about_mean(own, sum, nodes, direction);
      for (std::size_t k = 0; k < kDimensions; ++k) {
        one[k] += turn * direction[k];
        sum_after[k] += one[k];
      }
      energy_after += dot(one, one);
    }
    for (std::size_t k = 0; k < kDimensions; ++k) EXPECT_NEAR(sum_after[k], static_cast<double>(sum[k]), 1e-11);
    EXPECT_NEAR(energy_after, energy, 1e-12 * energy);
    if (nodes != 2) continue;
    collide(collided[0], collided[1], direction);
    for (std::size_t k = 0; k < kDimensions; ++k) {
      EXPECT_NEAR(all[0][k], collided[0][k], 1e-12);
      EXPECT_NEAR(all[1][k], collided[1][k], 1e-12);
    }
  }
}

}  // namespace
}  // namespace stretto
