#include "stretto/train/replica/flat_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace stretto {
namespace {

template <class T>
std::span<std::byte> bytes(std::vector<T>& numbers) {
  return std::as_writable_bytes(std::span(numbers));
}

template <class T>
class Finite : public testing::Test {
 public:
  static constexpr DataType kType = sizeof(T) == 4 ? DataType::float32 : DataType::float64;
};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(Finite, Floats);

TYPED_TEST(Finite, TakesEveryFiniteNumber) {
  using Limits = std::numeric_limits<TypeParam>;
  std::vector<TypeParam> numbers{
      0, -TypeParam{0}, 1, -1, Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min()};
  EXPECT_TRUE(all_finite(this->kType, bytes(numbers)));
  EXPECT_TRUE(all_finite(this->kType, {}));
}

TYPED_TEST(Finite, FindsTheFirstThatIsNot) {
  using Limits = std::numeric_limits<TypeParam>;
  for (const TypeParam bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), -Limits::quiet_NaN()}) {
    for (const std::size_t at : {0u, 1u, 4095u, 4096u, 9999u}) {
      std::vector<TypeParam> numbers(10000, TypeParam{3});
      numbers[at] = bad;
      numbers.back() = bad;
      EXPECT_EQ(first_non_finite(this->kType, bytes(numbers)), static_cast<std::int64_t>(at));
      EXPECT_FALSE(all_finite(this->kType, bytes(numbers)));
    }
  }
}

TEST(Scaling, DividesAndMultipliesNumberByNumber) {
  std::vector<float> numbers{3, 5, 7};
  std::vector<float> out(3);
  divide(DataType::float32, bytes(out), bytes(numbers), 3);
  EXPECT_EQ(out, (std::vector<float>{1, 5.0f / 3.0f, 7.0f / 3.0f}));
  std::vector<double> wide{3, 5};
  scale(DataType::float64, bytes(wide), bytes(wide), 0.5);
  EXPECT_EQ(wide, (std::vector<double>{1.5, 2.5}));
  add_scaled(DataType::float32, bytes(numbers), bytes(out), 3);
  EXPECT_EQ(numbers, (std::vector<float>{6, 10, 14}));
}

TEST(Descend, FollowsTheRuleOfMomentum) {
  std::vector<float> weights{1, 2}, next(2), velocity{4, 0}, sum{2, 8};
  descend(DataType::float32, bytes(next), bytes(weights), bytes(velocity), bytes(sum), 0.5, 2);
  EXPECT_EQ(velocity, (std::vector<float>{3, 4}));
  EXPECT_EQ(next, (std::vector<float>{-2, -2}));
  std::vector<double> in_place{1}, wide{3};
  descend(DataType::float64, bytes(in_place), bytes(in_place), {}, bytes(wide), 0.5, 2);
  EXPECT_EQ(in_place, (std::vector<double>{-0.5})) << "without a velocity";
}

TEST(Descend, DecayPullsAtTheWeightsTheGradientWasComputedOn) {
  std::vector<float> gradient{1, 2}, weights{2, 4};
  decay_and_scale(DataType::float32, bytes(gradient), bytes(weights), 0.5, 0.25);
  EXPECT_EQ(gradient, (std::vector<float>{0.5, 1}));
}

TEST(Means, CountWhatARankHasDoneByItself) {
  std::vector<float> sum{6, 9}, old{1, 1};
  std::vector<float> model{3, 5};
  add_divide(DataType::float32, bytes(model), bytes(sum), 3);
  EXPECT_EQ(model, (std::vector<float>{3, 14.0f / 3.0f}));
  model = {3, 5};
  carry(DataType::float32, bytes(model), bytes(sum), 2, bytes(old));
  EXPECT_EQ(model, (std::vector<float>{3 + 2, 4.5f + 4}));
  std::vector<double> wide{3};
  std::vector<double> wide_sum{6}, wide_old{1};
  add_divide(DataType::float64, bytes(wide), bytes(wide_sum), 2);
  EXPECT_EQ(wide, (std::vector<double>{4.5}));
  carry(DataType::float64, bytes(wide), bytes(wide_sum), 2, bytes(wide_old));
  EXPECT_EQ(wide, (std::vector<double>{6.5}));
}

TEST(Squares, AreAddedUpWhateverTheirNumber) {
  for (const std::size_t count : {0u, 1u, 7u, 8u, 9u, 1000u}) {
    std::vector<float> numbers(count);
    double expected = 0;
    for (std::size_t i = 0; i < count; ++i) {
      numbers[i] = static_cast<float>(i) - 3;
      expected += (static_cast<double>(i) - 3) * (static_cast<double>(i) - 3);
    }
    EXPECT_EQ(sum_of_squares(DataType::float32, bytes(numbers)), expected) << count;
    std::vector<double> wide(numbers.begin(), numbers.end());
    EXPECT_EQ(sum_of_squares(DataType::float64, bytes(wide)), expected) << count;
  }
}

TYPED_TEST(Finite, SubtractsNumberByNumberAlsoInPlace) {
  std::vector<TypeParam> a{5, -2, 0.5}, b{1, -3, 2}, d(3);
  subtract(this->kType, bytes(d), bytes(a), bytes(b));
  EXPECT_EQ(d, (std::vector<TypeParam>{4, 1, -1.5}));
  subtract(this->kType, bytes(a), bytes(a), bytes(b));
  EXPECT_EQ(a, d);
}

TEST(Hash, DependsOnEveryByteAndOnWherePiecesEnd) {
  std::set<std::uint64_t> values;
  const std::string base(100, 'x');
  for (std::size_t i = 0; i < base.size(); ++i) {
    std::string changed = base;
    changed[i] = 'y';
    Hash64 hash;
    hash.add(changed);
    values.insert(hash.value());
  }
  for (std::size_t cut = 0; cut <= base.size(); ++cut) {
    Hash64 hash;
    hash.add(base.substr(0, cut));
    hash.add(base.substr(cut));
    values.insert(hash.value());
  }
  EXPECT_EQ(values.size(), 100u + 101u);
}

TEST(Hash, IsAFunctionOfTheBytes) {
  Hash64 a, b;
  a.add("same");
  b.add(std::string("same"));
  EXPECT_EQ(a.value(), b.value());
  EXPECT_EQ(a.value(), 0x877f0f22d94aaf10u) << "of XXH3, on every machine";
}

}  // namespace
}  // namespace stretto
