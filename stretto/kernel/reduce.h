#pragma once

#include <cstddef>
#include <cstdint>

#include "stretto/base/data_type.h"

namespace stretto {

/// dst[i] = dst[i] ⊕ src[i] for `count` elements; with `src_first` dst[i] = src[i] ⊕ dst[i], which differs in the bits
/// of minima and maxima over ±0 and NaN (a < b ? a : b keeps the second where they do not compare).
/// Integer sums wrap; each sum of 16-bit numbers is rounded. Which of two NaNs a sum keeps is left open.
/// Either pointer null: does nothing (a payload without bytes).
void reduce(DataType type, ReduceOp op, bool src_first, std::byte* dst, const std::byte* src, std::uint64_t count);

}  // namespace stretto
