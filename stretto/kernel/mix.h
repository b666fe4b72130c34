#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stretto/base/data_type.h"

namespace stretto {

// Arithmetic on models of which two move towards each other. Elements are floating point numbers or int64. Numbers of
// 16 bits are computed with as float32, and each difference, product and sum is rounded. An int64 is taken as a residue
// modulo kMixPrime: there every division is exact, so that a search can check sums to the bit. A weight m·2^e, as each
// double is one, stands for the residue of m·2^e. Pointers need no alignment; memory of different arguments does not
// overlap.

/// The prime 2^31 − 1: the sum of 2^32 residues fits in an int64, and so does the product of two.
inline constexpr std::int64_t kMixPrime = (std::int64_t{1} << 31) - 1;

/// Whether mix() and the others know this type.
constexpr bool can_mix(DataType type) {
  return type != DataType::int32;
}

/// Moves `mine` towards `theirs` by `weight` of their distance, and puts into `theirs` what must be subtracted there
/// for it to come closer by `back`: with difference = theirs − mine, mine += weight × difference, theirs = back ×
/// difference. With weight = back what is added here is to the bit what is subtracted there.
void mix(DataType type, std::byte* mine, std::byte* theirs, std::uint64_t count, double weight, double back);

/// dst −= src.
void subtract(DataType type, std::byte* dst, const std::byte* src, std::uint64_t count);

/// Adds to `dst` how far `moved` has come from `base`: dst += moved − base; then moved = base = dst.
void add_move(DataType type, std::byte* dst, std::byte* base, std::byte* moved, std::uint64_t count);

/// The arithmetic with which a collective moves models that stand: arrays of one type and length, number by number. Any
/// thread; allocates nothing.
struct ModelMath {
  /// model = sum / members; `model` may be `sum`.
  void (*mean)(DataType type, std::span<std::byte> model, std::span<const std::byte> sum, double members) = nullptr;
  /// model = stands + (model − base).
  void (*put_on)(DataType type, std::span<std::byte> model, std::span<const std::byte> stands,
                 std::span<const std::byte> base) = nullptr;
};

}  // namespace stretto
