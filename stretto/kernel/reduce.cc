#include "stretto/kernel/reduce.h"

#include <cstring>
#include <limits>

#include "stretto/kernel/kernels.h"

namespace stretto {
namespace {

template <class T>
T neutral(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ReduceOp::min: return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case ReduceOp::max: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case ReduceOp::bit_and: return static_cast<T>(-1);
    case ReduceOp::sum: break;
  }
  return Limits::has_infinity ? static_cast<T>(-0.0) : T{};
}

template <class T>
void fill(std::byte* dst, T element, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) std::memcpy(dst + i * sizeof element, &element, sizeof element);
}

}  // namespace

void reduce(DataType type, ReduceOp op, bool src_first, std::byte* dst, const std::byte* src, std::uint64_t count) {
  if (dst == nullptr || src == nullptr) return;
  const std::byte* const operands[] = {src_first ? src : dst, src_first ? dst : src};
  kernels_in_use().function(type, op, Kernels::Shape::pair)(dst, operands, 2, count * size_of(type));
}

void fill_neutral(DataType type, ReduceOp op, std::byte* dst, std::uint64_t count) {
  switch (type) {
    case DataType::float32: return fill(dst, neutral<float>(op), count);
    case DataType::float64: return fill(dst, neutral<double>(op), count);
    case DataType::int32: return fill(dst, neutral<std::int32_t>(op), count);
    case DataType::int64: return fill(dst, neutral<std::int64_t>(op), count);
    case DataType::bfloat16: return fill(dst, to_bfloat16(neutral<float>(op)), count);
    case DataType::float16: return fill(dst, to_float16(neutral<float>(op)), count);
  }
}

}  // namespace stretto
