#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "stretto/base/half.h"

namespace stretto {

/// The type of a buffer's elements.
enum class DataType : std::uint8_t {
  float32,   ///< `float`
  float64,   ///< `double`
  int32,     ///< `std::int32_t`
  int64,     ///< `std::int64_t`
  bfloat16,  ///< BFloat16
  float16,   ///< Float16
};
/// The operation that makes one element of two. A NaN stays NaN under each, wherever it comes from, as in
/// torch.maximum() and torch.minimum().
enum class ReduceOp : std::uint8_t {
  sum,      ///< bfloat16 and float16 are added as float and rounded after each addition
  min,      ///< the smaller one
  max,      ///< the larger one
  bit_and,  ///< of the bits of integers: int32 and int64 alone
};

/// Bytes of an element.
constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::float64:
    case DataType::int64: return 8;
    case DataType::bfloat16:
    case DataType::float16: return 2;
    case DataType::float32:
    case DataType::int32: break;
  }
  return 4;
}

/// Bytes that an array of a collective may have: so few that those of all ranks, and of all rounds in flight, can be
/// added up.
inline constexpr std::uint64_t kMaxArrayBytes = std::uint64_t{1} << 42;

/// Bytes of `times` arrays of `count` elements. Throws UsageError where they are more than kMaxArrayBytes.
std::uint64_t checked_bytes(DataType type, std::uint64_t count, std::uint64_t times = 1);

/// The DataType of an element type; defined for the six there are.
template <class T>
inline constexpr DataType kDataTypeOf = [] {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int32_t> ||
                std::is_same_v<T, std::int64_t> || std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>);
  if (std::is_same_v<T, float>) return DataType::float32;
  if (std::is_same_v<T, double>) return DataType::float64;
  if (std::is_same_v<T, BFloat16>) return DataType::bfloat16;
  if (std::is_same_v<T, Float16>) return DataType::float16;
  return std::is_same_v<T, std::int32_t> ? DataType::int32 : DataType::int64;
}();

/// "float32", "float64", …
const char* name_of(DataType type);
/// "sum", "min", "max", "bit_and".
const char* name_of(ReduceOp op);

/// Whether elements of the type can be reduced so.
constexpr bool reduces(DataType type, ReduceOp op) {
  return op != ReduceOp::bit_and || type == DataType::int32 || type == DataType::int64;
}
/// Throws UsageError where they cannot.
void check_reduction(DataType type, ReduceOp op);

}  // namespace stretto
