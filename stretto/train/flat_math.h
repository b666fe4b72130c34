#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "stretto/base/data_type.h"

namespace stretto {

/// Whether none of the float32 or float64 numbers is infinite or NaN. Looks at the bits, one pass over the memory.
bool all_finite(DataType type, std::span<const std::byte> numbers);

/// The first number that is infinite or NaN, or −1.
std::int64_t first_non_finite(DataType type, std::span<const std::byte> numbers);

/// dst = src / divisor, number by number. Requires: the same length; float32 or float64.
void divide(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double divisor);

/// dst = src × factor, number by number. Requires: the same length; float32 or float64.
void scale(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double factor);

/// A 64-bit hash of a sequence of pieces, for comparing what should be equal: fast, not cryptographic, the same on
/// all machines of one byte order. Where one piece ends and the next begins matters.
class Hash64 {
 public:
  void add(std::span<const std::byte> piece);
  void add(std::string_view piece) { add(std::as_bytes(std::span(piece))); }
  void add(std::uint64_t number);
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x9ae16a3b2f90404full;
};

}  // namespace stretto
