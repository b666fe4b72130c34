#pragma once

#include <cstdint>

namespace stretto {

/// Numbers of 16 bits, which are added as float and rounded back after each addition. That is as good as one rounding
/// of the exact sum: float has more than twice their digits (Figueroa 1995). All of it is constexpr and always inlined:
/// kernels are compiled for several processors, and no copy made for one of them may serve the others.

/// The upper half of a float: 8 bits of exponent, 7 of fraction.
struct BFloat16 {
  std::uint16_t bits;
};

/// IEEE binary16: 5 bits of exponent, 10 of fraction; finite up to 65504.
struct Float16 {
  std::uint16_t bits;
};

#define STRETTO_INLINE [[gnu::always_inline]] constexpr inline

/// Exact.
STRETTO_INLINE float to_float(BFloat16 x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16);
}

/// Exact; a signalling NaN becomes quiet, as processors do it.
STRETTO_INLINE float to_float(Float16 x) {
  const std::uint32_t sign = (x.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  const std::uint32_t denormal =
      __builtin_bit_cast(std::uint32_t, static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24f);
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);
  const std::uint32_t special = (magnitude << 13) | 0x7f800000u | (magnitude > 0x7c00u ? 0x00400000u : 0u);
  const std::uint32_t finite = magnitude < 0x0400u ? denormal : normal;
  return __builtin_bit_cast(float, sign | (magnitude < 0x7c00u ? finite : special));
}

/// The nearest, to even on a tie; NaN stays NaN (quiet, with the upper bits of its payload).
STRETTO_INLINE BFloat16 to_bfloat16(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const std::uint32_t nan = bits >> 16 | 0x0040u;
  return {static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}

/// The nearest, to even on a tie, ±∞ beyond 65520; NaN stays NaN (quiet, with the upper bits of its payload).
STRETTO_INLINE Float16 to_float16(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Below 2⁻¹⁴ the addition of ½ rounds: the last digit of floats in [½, 1) is worth 2⁻²⁴.
  const std::uint32_t denormal =
      __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (magnitude - (112u << 23) + 0x0fffu + (magnitude >> 13 & 1u)) >> 13;
  const std::uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x03ffu);
  const std::uint32_t finite = magnitude < 0x38800000u ? denormal : normal;
  const std::uint32_t special = magnitude > 0x7f800000u ? nan : 0x7c00u;
  return {static_cast<std::uint16_t>(sign | (magnitude < 0x47800000u ? finite : special))};
}

STRETTO_INLINE BFloat16 operator+(BFloat16 a, BFloat16 b) {
  return to_bfloat16(to_float(a) + to_float(b));
}
STRETTO_INLINE Float16 operator+(Float16 a, Float16 b) {
  return to_float16(to_float(a) + to_float(b));
}
// Compared as numbers: −0 is not less than +0, and NaN neither less nor greater than anything.
STRETTO_INLINE bool operator<(BFloat16 a, BFloat16 b) {
  return to_float(a) < to_float(b);
}
STRETTO_INLINE bool operator>(BFloat16 a, BFloat16 b) {
  return to_float(a) > to_float(b);
}
STRETTO_INLINE bool operator<(Float16 a, Float16 b) {
  return to_float(a) < to_float(b);
}
STRETTO_INLINE bool operator>(Float16 a, Float16 b) {
  return to_float(a) > to_float(b);
}

#undef STRETTO_INLINE

}  // namespace stretto
