#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stretto/base/data_type.h"
#include "stretto/kernel/combination.h"
#include "stretto/kernel/kernels.h"

namespace stretto {

/// dst[i] = first[i] ⊕ second[i] for `count` elements; dst may be one of the two. Their order shows in the bits of
/// minima and maxima over ±0, of which the second stays, and over two NaNs, of which the first does. Integer sums wrap;
/// each sum of 16-bit numbers is rounded. A NaN stays NaN, in sums, minima and maxima, as in Torch; which of two NaNs a
/// sum keeps is left open. Requires: the type has the operation (reduces()). A pointer null: does nothing (a payload
/// without bytes).
void reduce(DataType type, ReduceOp op, std::byte* dst, const std::byte* first, const std::byte* second,
            std::uint64_t count);

/// Fills dst with `count` times the element that changes nothing: reduced with it, any other keeps its bits (-0 for
/// sums of floats, since +0 makes a +0 of a -0). For ranks that bring nothing to some of several tensors reduced as
/// one. Requires: the type has the operation.
void fill_neutral(DataType type, ReduceOp op, std::byte* dst, std::uint64_t count);

enum class Stores {
  cached,
  streaming,  ///< bypass the cache: for results larger than it, which otherwise are read before they are written
};
/// The stores for a result that is not read soon: streaming where `bytes`, counted over all threads that write at once,
/// would push everything else out of a cache.
constexpr Stores stores_for(std::uint64_t bytes) {
  return bytes >= (16u << 20) ? Stores::streaming : Stores::cached;
}

/// dst[i] = combination of sources[0 … n)[i], for `count` elements: each source is read once and dst is written once,
/// with the bits that reduce() gives when it is called in that order. dst may be one of the sources, and overlaps none
/// in part. Nothing needs to be aligned; streaming falls back to cached stores where no element begins at a cache line.
/// Throws UsageError if there are fewer sources than the combination has, and where the type has no such operation.
/// Allocates nothing.
void combine(const Combination& combination, DataType type, ReduceOp op, std::byte* dst,
             std::span<const std::byte* const> sources, std::uint64_t count, Stores stores = Stores::cached);

/// dst = src, for `bytes` bytes that do not overlap in part.
void copy_bytes(std::byte* dst, const std::byte* src, std::uint64_t bytes, Stores stores);

/// The same with the given kernels, one of available_kernels().
void combine(const Kernels& kernels, const Combination& combination, DataType type, ReduceOp op, std::byte* dst,
             std::span<const std::byte* const> sources, std::uint64_t count, Stores stores = Stores::cached);
void copy_bytes(const Kernels& kernels, std::byte* dst, const std::byte* src, std::uint64_t bytes, Stores stores);

}  // namespace stretto
