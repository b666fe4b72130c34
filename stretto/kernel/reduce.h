#pragma once

#include <cstddef>
#include <cstdint>

#include "stretto/base/data_type.h"

namespace stretto {

/// dst[i] = dst[i] ⊕ src[i] for `count` elements; with `src_first` dst[i] = src[i] ⊕ dst[i], which differs in the bits
/// of minima and maxima over ±0, of which the second stays, and over two NaNs, of which the first does.
/// Integer sums wrap; each sum of 16-bit numbers is rounded. A NaN stays NaN, in sums, minima and maxima, as in Torch;
/// which of two NaNs a sum keeps is left open.
/// Requires: the type has the operation (reduces()). Either pointer null: does nothing (a payload without bytes).
void reduce(DataType type, ReduceOp op, bool src_first, std::byte* dst, const std::byte* src, std::uint64_t count);

/// Fills dst with `count` times the element that changes nothing: reduced with it, any other keeps its bits (-0 for
/// sums of floats, since +0 makes a +0 of a -0). For ranks that bring nothing to some of several tensors reduced as
/// one. Requires: the type has the operation.
void fill_neutral(DataType type, ReduceOp op, std::byte* dst, std::uint64_t count);

}  // namespace stretto
