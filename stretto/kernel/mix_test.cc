#include "stretto/kernel/mix.h"

#include <gtest/gtest.h>

#include <vector>

#include "stretto/base/random.h"
#include "stretto/kernel/testing/bytes.h"

namespace stretto {
namespace {

template <class T>
std::vector<T> drawn(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  std::vector<T> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(std::is_integral_v<T> ? static_cast<T>(random.below(kMixPrime)) : static_cast<T>(random.normal()));
  }
  return out;
}

TEST(Mix, MeetsInTheMiddleWithWeightsOfAHalf) {
  std::vector<float> mine{1, 4}, theirs{3, -2};
  mix(DataType::float32, bytes(mine), bytes(theirs), 2, 0.5, 0.5);
  EXPECT_EQ(mine, (std::vector<float>{2, 1}));
  EXPECT_EQ(theirs, (std::vector<float>{1, -3})) << "what their owner subtracts";
}

TEST(Mix, TakesAWeightForEachSide) {
  std::vector<double> mine{1}, theirs{9};
  mix(DataType::float64, bytes(mine), bytes(theirs), 1, 0.25, 0.5);
  EXPECT_EQ(mine[0], 3);
  EXPECT_EQ(theirs[0], 4);
}

TEST(Mix, KeepsTheSumOfTwoResiduesForAnyWeight) {
  for (const double weight : {0.5, 0.25, 0.1, 0.9 / 7, 1e-9, 0.0, 1.0}) {
    auto mine = drawn<std::int64_t>(1, 50), theirs = drawn<std::int64_t>(2, 50);
    const auto before = mine, sent = theirs;
    mix(DataType::int64, bytes(mine), bytes(theirs), 50, weight, weight);
    auto left = sent;
    subtract(DataType::int64, bytes(left), bytes(theirs), 50);
    for (std::size_t i = 0; i < 50; ++i) {
      EXPECT_EQ((mine[i] + left[i]) % kMixPrime, (before[i] + sent[i]) % kMixPrime) << weight;
      EXPECT_GE(mine[i], 0);
      EXPECT_LT(mine[i], kMixPrime);
    }
  }
}

TEST(Mix, HalvesResiduesExactly) {
  std::vector<std::int64_t> mine{7}, theirs{10};
  mix(DataType::int64, bytes(mine), bytes(theirs), 1, 0.5, 0.5);
  EXPECT_EQ(2 * mine[0] % kMixPrime, 17) << "the residue of 17/2";
}

TEST(Mix, AddsWhatThisAddsThereToTheBit) {
  auto mine = drawn<float>(3, 100), theirs = drawn<float>(4, 100);
  const auto before = mine;
  mix(DataType::float32, bytes(mine), bytes(theirs), 100, 0.1, 0.1);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(mine[i], before[i] + theirs[i]);
}

TEST(Mix, RoundsEachResultOfHalves) {
  // 257 lies between 256 and 258 in bfloat16: the difference of 256 and 1 is 255, the half of it 127.5, and 1 + 127.5
  // is rounded from 128.5 to 128.
  std::vector<BFloat16> mine{to_bfloat16(1), to_bfloat16(4)}, theirs{to_bfloat16(256), to_bfloat16(-2)};
  mix(DataType::bfloat16, bytes(mine), bytes(theirs), 2, 0.5, 0.5);
  EXPECT_EQ(to_float(mine[0]), 128);
  EXPECT_EQ(to_float(mine[1]), 1);
  EXPECT_EQ(to_float(theirs[0]), 127.5f);
  EXPECT_EQ(to_float(theirs[1]), -3);
  std::vector<Float16> model{to_float16(10)}, base{to_float16(9)}, moved{to_float16(8)};
  add_move(DataType::float16, bytes(model), bytes(base), bytes(moved), 1);
  EXPECT_EQ(to_float(model[0]), 9);
  EXPECT_EQ(to_float(moved[0]), 9);
  subtract(DataType::float16, bytes(model), bytes(moved), 1);
  EXPECT_EQ(to_float(model[0]), 0);
}

TEST(AddMove, AddsOwnProgressToWhatOthersHaveMadeOfTheModel) {
  std::vector<float> model{10, 20}, base{9, 20}, moved{8, 21};
  add_move(DataType::float32, bytes(model), bytes(base), bytes(moved), 2);
  EXPECT_EQ(model, (std::vector<float>{9, 21}));
  EXPECT_EQ(base, model);
  EXPECT_EQ(moved, model);
}

}  // namespace
}  // namespace stretto
