#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/data_type.h"

namespace stretto {

/// The loops of one instruction set: they combine a few operands, element by element, or convert one. All sets
/// give the same bits.
/// Pointers need no alignment. dst may be one of the operands, and overlaps none in part.
struct Kernels {
  /// The order in which operands are combined into one.
  enum class Shape : std::uint8_t {
    pair,   ///< x0 ⊕ x1
    tree4,  ///< (x0 ⊕ x1) ⊕ (x2 ⊕ x3)
    tree8,  ///< two of these
    chain,  ///< ((x0 ⊕ x1) ⊕ x2) ⊕ …, as many operands as wanted, at least two
  };
  static constexpr int kNumTypes = 6, kNumOps = 4, kNumShapes = 4;
  /// Streaming stores take whole lines of this many bytes.
  static constexpr std::uint64_t kLine = 64;

  /// dst = the operands combined, for `bytes` bytes: whole elements.
  using Function = void (*)(std::byte* dst, const std::byte* const* operands, int num_operands, std::uint64_t bytes);

  const char* name;  ///< "plain", "avx2", "avx512"
  /// By type, operation, shape. Null where the type has no such operation (stretto::reduces()).
  Function cached[kNumTypes][kNumOps][kNumShapes];
  /// The same with stores that bypass the cache. Requires: dst and bytes are multiples of kLine. Other threads see
  /// these stores only after fence().
  Function streaming[kNumTypes][kNumOps][kNumShapes];
  /// dst = src, with such stores and requirements.
  void (*copy_streaming)(std::byte* dst, const std::byte* src, std::uint64_t bytes);
  /// Orders streaming stores before every later store of this thread.
  void (*fence)();

  /// dst = src, `count` numbers of another type.
  using Conversion = void (*)(std::byte* dst, const std::byte* src, std::uint64_t count);
  Conversion widen[2];   ///< to float32, from bfloat16 and from float16
  Conversion narrow[2];  ///< from float32, to bfloat16 and to float16: the nearest

  Function function(DataType type, ReduceOp op, Shape shape) const {
    return cached[static_cast<int>(type)][static_cast<int>(op)][static_cast<int>(shape)];
  }
  Function streaming_function(DataType type, ReduceOp op, Shape shape) const {
    return streaming[static_cast<int>(type)][static_cast<int>(op)][static_cast<int>(shape)];
  }
};

extern const Kernels kPlainKernels;
/// Only where the processor has them; see available_kernels().
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;

/// The kernels that can run on this processor, the fastest last; "plain" is always among them.
std::span<const Kernels* const> available_kernels();

/// The fastest of them, or the one that the environment variable STRETTO_KERNELS names; looked up once in a process.
/// Throws UsageError if the kernel named cannot run here.
const Kernels& kernels_in_use();

/// The kernels beside kPlainKernels that this processor can run, the fastest last. Defined in x86.cc or no_x86.cc, by
/// the processor that is built for.
std::vector<const Kernels*> special_kernels();

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
