#pragma once

#include <cstddef>
#include <cstdint>

#include "stretto/base/data_type.h"

namespace stretto {

// Numbers of 16 bits as float32 and back, for arithmetic in float32 that is rounded once. Pointers need no alignment;
// memory of different arguments does not overlap.

/// Whether widen() and narrow() know this type.
constexpr bool is_half(DataType type) {
  return type == DataType::bfloat16 || type == DataType::float16;
}

/// dst = src, `count` numbers, exact; a signalling NaN of float16 becomes quiet. Requires: is_half(type).
void widen(DataType type, float* dst, const std::byte* src, std::uint64_t count);

/// dst = the numbers of `type` nearest to src, to even on a tie; of float16 ±∞ from 65520 on; NaN stays NaN.
/// Requires: is_half(type).
void narrow(DataType type, std::byte* dst, const float* src, std::uint64_t count);

}  // namespace stretto
