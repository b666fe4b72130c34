#include "stretto/base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "stretto/base/random.h"

namespace stretto {
namespace {

struct Bfloat {
  using Half = BFloat16;
  static constexpr int kDigits = 8, kLeast = -133;
  static constexpr std::uint16_t kInfinity = 0x7f80, kQuiet = 0x0040;
  static Half from(float x) { return to_bfloat16(x); }
};
struct Binary16 {
  using Half = Float16;
  static constexpr int kDigits = 11, kLeast = -24;
  static constexpr std::uint16_t kInfinity = 0x7c00, kQuiet = 0x0200;
  static Half from(float x) { return to_float16(x); }
};

template <class Format>
class HalfTest : public ::testing::Test {};
using Formats = ::testing::Types<Bfloat, Binary16>;
TYPED_TEST_SUITE(HalfTest, Formats);

/// What a half says, by arithmetic on its fields.
template <class Format>
double value_of(std::uint16_t bits) {
  constexpr int kFraction = Format::kDigits - 1;
  const int exponent = (bits & 0x7fff) >> kFraction;
  const int fraction = bits & ((1 << kFraction) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(fraction, Format::kLeast);
  return sign * std::ldexp(fraction + (1 << kFraction), Format::kLeast + exponent - 1);
}

TYPED_TEST(HalfTest, EveryPatternMeansWhatItSaysAndComesBack) {
  for (std::uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float x = to_float(typename TypeParam::Half{bits});
    const int magnitude = bits & 0x7fff;
    if (magnitude > TypeParam::kInfinity) {
      ASSERT_TRUE(std::isnan(x)) << i;
      ASSERT_EQ(TypeParam::from(x).bits, bits | TypeParam::kQuiet) << i;
      continue;
    }
    ASSERT_EQ(TypeParam::from(x).bits, bits) << i;
    ASSERT_EQ(std::signbit(x), i >= 0x8000) << i;
    if (magnitude == TypeParam::kInfinity) {
      ASSERT_TRUE(std::isinf(x)) << i;
    } else {
      ASSERT_EQ(x, value_of<TypeParam>(bits)) << i;
    }
  }
}

TYPED_TEST(HalfTest, RoundsToTheNearestAndToEvenOnATie) {
  for (std::uint16_t bits = 0; bits + 1 < TypeParam::kInfinity; ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);
    const auto tie = static_cast<float>((value_of<TypeParam>(bits) + value_of<TypeParam>(next)) / 2);
    const auto even = bits % 2 == 0 ? bits : next;
    ASSERT_EQ(TypeParam::from(tie).bits, even) << bits;
    ASSERT_EQ(TypeParam::from(-tie).bits, even | 0x8000) << bits;
    ASSERT_EQ(TypeParam::from(std::nextafter(tie, 0.0f)).bits, bits) << bits;
    ASSERT_EQ(TypeParam::from(std::nextafter(tie, std::numeric_limits<float>::infinity())).bits, next) << bits;
  }
}

TYPED_TEST(HalfTest, WhatIsTooLargeIsInfinite) {
  const std::uint16_t greatest = TypeParam::kInfinity - 1;
  // Where the next number would be.
  const double beyond = std::ldexp(1.0, std::ilogb(value_of<TypeParam>(greatest)) + 1);
  const auto tie = static_cast<float>((value_of<TypeParam>(greatest) + beyond) / 2);
  EXPECT_EQ(TypeParam::from(tie).bits, TypeParam::kInfinity);
  EXPECT_EQ(TypeParam::from(std::nextafter(tie, 0.0f)).bits, greatest);
  EXPECT_EQ(TypeParam::from(std::numeric_limits<float>::max()).bits, TypeParam::kInfinity);
  EXPECT_EQ(TypeParam::from(-std::numeric_limits<float>::infinity()).bits, TypeParam::kInfinity | 0x8000);
}

TYPED_TEST(HalfTest, NanStaysNan) {
  for (std::uint32_t payload = 1; payload < 0x00800000; payload = payload * 3 + 1) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const auto half = TypeParam::from(std::bit_cast<float>(sign | 0x7f800000u | payload));
      ASSERT_GT(half.bits & 0x7fff, TypeParam::kInfinity) << payload;
      ASSERT_EQ(half.bits >> 15, sign >> 31) << payload;
    }
  }
}

TYPED_TEST(HalfTest, ASumIsRoundedOnce) {
  using Half = typename TypeParam::Half;
  Random random(3);
  for (int i = 0; i < 200000; ++i) {
    const Half a{static_cast<std::uint16_t>(random.bits())};
    // Mostly of a similar exponent, where roundings and cancellations are.
    const Half b{static_cast<std::uint16_t>(random.chance(0.3) ? random.bits() : a.bits ^ random.below(4096))};
    // The exact sum of two halves within 2^29 of each other is a double; beyond, the smaller does not matter.
    const double sum = static_cast<double>(to_float(a)) + to_float(b);
    if (std::isnan(sum) || std::isinf(sum)) continue;
    const auto to_odd = [&] {  // rounding to odd first keeps the second rounding right
      auto x = static_cast<float>(sum);
      if (static_cast<double>(x) == sum) return x;
      if (std::abs(static_cast<double>(x)) > std::abs(sum)) x = std::nextafter(x, 0.0f);
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) | 1u);
    };
    ASSERT_EQ((a + b).bits, TypeParam::from(to_odd()).bits) << a.bits << " + " << b.bits;
  }
}

TYPED_TEST(HalfTest, IsComparedAsANumber) {
  using Half = typename TypeParam::Half;
  const Half zero{0}, minus_zero{0x8000}, one = TypeParam::from(1), minus_two = TypeParam::from(-2);
  const Half nan{TypeParam::kInfinity | TypeParam::kQuiet};
  EXPECT_TRUE(minus_two < zero);
  EXPECT_TRUE(one > minus_two);
  EXPECT_FALSE(minus_zero < zero);
  EXPECT_FALSE(zero > minus_zero);
  EXPECT_FALSE(nan < one || nan > one || one < nan || one > nan);
}

}  // namespace
}  // namespace stretto
