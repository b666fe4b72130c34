#include "stretto/train/replica/flat_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/train/testing/bytes.h"

namespace stretto {
namespace {

template <class T>
class Finite : public testing::Test {
 public:
  static constexpr DataType kType = sizeof(T) == 4 ? DataType::float32 : DataType::float64;
};
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

std::vector<float> drawn(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(random.normal());
  return numbers;
}

/// bfloat16 and float16, of which each function does what it does with float32, and rounds what it writes.
template <class T>
class Half : public testing::Test {
 public:
  static constexpr DataType kType = kDataTypeOf<T>;
  static constexpr std::uint16_t kInfinity = std::is_same_v<T, BFloat16> ? 0x7f80 : 0x7c00;

  static T nearest(float x) {
    if constexpr (std::is_same_v<T, BFloat16>) return to_bfloat16(x);
    if constexpr (std::is_same_v<T, Float16>) return to_float16(x);
  }
  static std::vector<T> narrowed(const std::vector<float>& wide) {
    std::vector<T> out;
    for (const float x : wide) out.push_back(nearest(x));
    return out;
  }
  static std::vector<float> widened(const std::vector<T>& halves) {
    std::vector<float> out;
    for (const T x : halves) out.push_back(to_float(x));
    return out;
  }
  static std::vector<std::uint16_t> bits(const std::vector<T>& halves) {
    std::vector<std::uint16_t> out;
    for (const T x : halves) out.push_back(x.bits);
    return out;
  }

  /// Calls `function` with a type and four arrays: with these halves, and with the same numbers as float32, and expects
  /// the rounded bits of the latter.
  template <class Function>
  static void expect_rounded(Function function) {
    for (const std::size_t count : {0u, 1u, 7u, 1023u, 1024u, 1025u, 5000u}) {
      std::vector<std::vector<T>> halves;
      std::vector<std::vector<float>> wide;
      for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
        halves.push_back(narrowed(drawn(seed, count)));
        wide.push_back(widened(halves.back()));
      }
      function(kType, bytes(halves[0]), bytes(halves[1]), bytes(halves[2]), bytes(halves[3]));
      function(DataType::float32, bytes(wide[0]), bytes(wide[1]), bytes(wide[2]), bytes(wide[3]));
      for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(bits(halves[k]), bits(narrowed(wide[k]))) << count << ' ' << k;
    }
  }
};
using Halves = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(Half, Halves);

using Bytes = std::span<std::byte>;

TYPED_TEST(Half, ComputesInFloatAndRoundsOnce) {
  this->expect_rounded([](DataType t, Bytes a, Bytes b, Bytes, Bytes) { divide(t, a, b, 3); });
  this->expect_rounded([](DataType t, Bytes a, Bytes, Bytes, Bytes) { scale(t, a, a, 0.1); });
  this->expect_rounded([](DataType t, Bytes a, Bytes b, Bytes, Bytes) { add_divide(t, a, b, 3); });
  this->expect_rounded([](DataType t, Bytes a, Bytes b, Bytes c, Bytes) { carry(t, a, b, 7, c); });
  this->expect_rounded([](DataType t, Bytes a, Bytes b, Bytes c, Bytes) { subtract(t, a, b, c); });
  this->expect_rounded([](DataType t, Bytes a, Bytes b, Bytes, Bytes) { subtract(t, a, b, a); });
  this->expect_rounded([](DataType t, Bytes a, Bytes b, Bytes c, Bytes) { nesterov_step(t, a, b, c, 3, 0.7, 0.9); });
  this->expect_rounded([](DataType t, Bytes a, Bytes b, Bytes, Bytes) { add_scaled(t, a, b, 0.3); });
  this->expect_rounded([](DataType t, Bytes a, Bytes b, Bytes, Bytes) { decay_and_scale(t, a, b, 0.01, 0.1); });
  this->expect_rounded([](DataType t, Bytes a, Bytes b, Bytes c, Bytes d) { descend(t, a, b, c, d, 0.9, 3); });
  this->expect_rounded([](DataType t, Bytes a, Bytes, Bytes c, Bytes d) { descend(t, a, a, c, d, 0.9, 3); });
  this->expect_rounded([](DataType t, Bytes a, Bytes b, Bytes, Bytes d) { descend(t, a, b, {}, d, 0.9, 3); });
}

TYPED_TEST(Half, SquaresAreExactInDoublePrecision) {
  for (const std::size_t count : {0u, 1u, 9u, 1024u, 2500u}) {
    auto halves = this->narrowed(drawn(5, count));
    auto wide = this->widened(halves);
    EXPECT_EQ(sum_of_squares(this->kType, bytes(halves)), sum_of_squares(DataType::float32, bytes(wide))) << count;
  }
}

TYPED_TEST(Half, FindsTheFirstThatIsNotFinite) {
  const std::uint16_t largest = this->kInfinity - 1, infinite = this->kInfinity, sign = 0x8000;
  std::vector<TypeParam> numbers(10000, TypeParam{largest});
  numbers[1] = TypeParam{static_cast<std::uint16_t>(largest | sign)};
  EXPECT_TRUE(all_finite(this->kType, bytes(numbers)));
  for (const std::uint16_t bad : {infinite, static_cast<std::uint16_t>(infinite | sign),
                                  static_cast<std::uint16_t>(infinite + 1), std::uint16_t{0xffff}}) {
    for (const std::size_t at : {0u, 1u, 4095u, 4096u, 9998u}) {
      auto copy = numbers;
      copy[at] = copy.back() = TypeParam{bad};
      EXPECT_EQ(first_non_finite(this->kType, bytes(copy)), static_cast<std::int64_t>(at));
    }
  }
}

TYPED_TEST(Half, WidensAndNarrows) {
  auto halves = this->narrowed({1, -2.5f, 0});
  std::vector<float> wide(3);
  EXPECT_EQ(wide_type(this->kType), DataType::float32);
  widen(this->kType, bytes(wide), bytes(halves));
  EXPECT_EQ(wide, (std::vector<float>{1, -2.5f, 0}));
  wide = {3, 4, 5};
  narrow(this->kType, bytes(halves), bytes(wide));
  EXPECT_EQ(this->widened(halves), wide);
}

TYPED_TEST(Finite, StaysAsItIsWhereItIsWideAlready) {
  std::vector<TypeParam> a{1, 2}, b(2);
  EXPECT_EQ(wide_type(this->kType), this->kType);
  widen(this->kType, bytes(b), bytes(a));
  EXPECT_EQ(b, a);
  a = {3, 4};
  narrow(this->kType, bytes(b), bytes(a));
  EXPECT_EQ(b, a);
}

TEST(Scaling, DividesAndMultipliesNumberByNumber) {
  std::vector<float> numbers{3, 5, 7};
  std::vector<float> out(3);
  divide(DataType::float32, bytes(out), bytes(numbers), 3);
  EXPECT_EQ(out, (std::vector<float>{1, 5.0f / 3.0f, 7.0f / 3.0f}));
  divide_or_clear(DataType::float32, bytes(out), bytes(numbers), 2);
  EXPECT_EQ(out, (std::vector<float>{1.5, 2.5, 3.5}));
  divide_or_clear(DataType::float32, bytes(out), {}, 2);
  EXPECT_EQ(out, (std::vector<float>{0, 0, 0}));
  divide(DataType::float32, bytes(out), bytes(numbers), 3);
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

TEST(Squares, OfADistance) {
  std::vector<float> own{3, 5, -1}, sum{4, 8, 2};
  const SquaredDistance distance = squared_distance(DataType::float32, bytes(own), bytes(sum), 2);
  EXPECT_EQ(distance.apart, 1 + 1 + 4);
  EXPECT_EQ(distance.mean, 4 + 16 + 1);
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
