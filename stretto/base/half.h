#pragma once

#include <cstdint>

namespace stretto {

// Numbers of 16 bits, which are added as float and rounded back after each addition. That is as good as one rounding
// of the exact sum: float has more than twice their digits (Figueroa 1995). All of it is constexpr and always inlined:
// kernels are compiled for several processors, and no copy made for one of them may serve the others.

/// The upper half of a float: 8 bits of exponent, 7 of fraction.
struct BFloat16 {
  std::uint16_t bits;  ///< the number as it lies in memory
};

/// IEEE binary16: 5 bits of exponent, 10 of fraction; finite up to 65504.
struct Float16 {
  std::uint16_t bits;  ///< the number as it lies in memory
};

#define STRETTO_INLINE [[gnu::always_inline]] constexpr inline

/// \cond inner
/// The conversions, for one number or for a vector of them: Float is float, Bits is std::uint32_t, or vectors of these.
namespace half {

/// A float whose upper half is the bfloat16 nearest to x, to even on a tie; NaN stays NaN (quiet, with the upper bits
/// of its payload). The lower half means nothing.
template <class Bits, class Float>
STRETTO_INLINE Bits round_to_bfloat16(Float x) {
  const Bits bits = __builtin_bit_cast(Bits, x);
  const Bits rounded = bits + (0x7fffu + (bits >> 16 & 1u));
  return x != x ? bits | 0x00400000u : rounded;
}

/// Exact; a signalling NaN becomes quiet, as processors do it.
template <class Float, class Bits>
STRETTO_INLINE Float widen_float16(Bits half) {
  const Bits magnitude = half & 0x7fffu;
  const Bits scaled = magnitude << 13;
  // Floats in [½, 1) are 2⁻²⁴ apart, as float16 below 2⁻¹⁴ are.
  const Bits denormal = __builtin_bit_cast(Bits, __builtin_bit_cast(Float, magnitude + 0x3f000000u) - 0.5f);
  const Bits finite = magnitude < 0x0400u ? denormal : scaled + (112u << 23);
  const Bits nan = scaled | 0x7fc00000u;
  const Bits special = magnitude > 0x7c00u ? nan : scaled | 0x7f800000u;
  return __builtin_bit_cast(Float, (magnitude < 0x7c00u ? finite : special) | (half & 0x8000u) << 16);
}

/// The nearest, to even on a tie, ±∞ from 65520 on; NaN stays NaN (quiet, with the upper bits of its payload).
template <class Bits, class Float>
STRETTO_INLINE Bits narrow_float16(Float x) {
  const Bits bits = __builtin_bit_cast(Bits, x);
  const Bits magnitude = bits & 0x7fffffffu;
  const Bits denormal = __builtin_bit_cast(Bits, __builtin_bit_cast(Float, magnitude) + 0.5f) - 0x3f000000u;
  const Bits normal = (magnitude + (0x0fffu - (112u << 23)) + (magnitude >> 13 & 1u)) >> 13;
  const Bits finite = magnitude < 0x38800000u ? denormal : normal;
  const Bits nan = (magnitude >> 13 & 0x03ffu) | 0x7e00u;
  const Bits infinite = (magnitude & 0u) | 0x7c00u;
  const Bits special = x != x ? nan : infinite;
  return (magnitude < 0x47800000u ? finite : special) | (bits >> 16 & 0x8000u);
}

}  // namespace half
/// \endcond

/// Exact.
STRETTO_INLINE float to_float(BFloat16 x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16);
}
/// Exact; a signalling NaN becomes quiet.
STRETTO_INLINE float to_float(Float16 x) {
  return half::widen_float16<float, std::uint32_t>(x.bits);
}
/// The nearest, to even on a tie; NaN stays NaN.
STRETTO_INLINE BFloat16 to_bfloat16(float x) {
  return {static_cast<std::uint16_t>(half::round_to_bfloat16<std::uint32_t>(x) >> 16)};
}
/// The nearest, to even on a tie, ±∞ from 65520 on; NaN stays NaN.
STRETTO_INLINE Float16 to_float16(float x) {
  return {static_cast<std::uint16_t>(half::narrow_float16<std::uint32_t>(x))};
}

/// The float sum, rounded: as good as the exact sum rounded once, since float has more than twice the digits
/// (Figueroa, *When is double rounding innocuous?*, SIGNUM Newsletter 30(3), 1995).
STRETTO_INLINE BFloat16 operator+(BFloat16 a, BFloat16 b) {
  return to_bfloat16(to_float(a) + to_float(b));
}
/// As that of BFloat16.
STRETTO_INLINE Float16 operator+(Float16 a, Float16 b) {
  return to_float16(to_float(a) + to_float(b));
}
/// As numbers: −0 is not less than +0, and NaN is neither less nor greater than anything.
STRETTO_INLINE bool operator<(BFloat16 a, BFloat16 b) {
  return to_float(a) < to_float(b);
}
/// As numbers.
STRETTO_INLINE bool operator>(BFloat16 a, BFloat16 b) {
  return to_float(a) > to_float(b);
}
/// As numbers.
STRETTO_INLINE bool operator<(Float16 a, Float16 b) {
  return to_float(a) < to_float(b);
}
/// As numbers.
STRETTO_INLINE bool operator>(Float16 a, Float16 b) {
  return to_float(a) > to_float(b);
}

#undef STRETTO_INLINE

}  // namespace stretto
