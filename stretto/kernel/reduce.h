#pragma once

#include <cstddef>
#include <cstdint>

#include "stretto/base/data_type.h"

namespace stretto {

/// dst[i] = dst[i] ⊕ src[i] for `count` elements; with `src_first` dst[i] = src[i] ⊕ dst[i], which differs in the bits
/// of minima and maxima over ±0, of which the second stays, and over two NaNs, of which the first does.
/// Integer sums wrap; each sum of 16-bit numbers is rounded. A NaN stays NaN, in sums, minima and maxima, as in Torch;
/// which of two NaNs a sum keeps is left open.
/// Either pointer null: does nothing (a payload without bytes).
void reduce(DataType type, ReduceOp op, bool src_first, std::byte* dst, const std::byte* src, std::uint64_t count);

}  // namespace stretto
