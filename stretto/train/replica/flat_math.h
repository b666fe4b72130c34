#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "stretto/base/data_type.h"

namespace stretto {

// Arithmetic on arrays of float32, float64, bfloat16 or float16. Where several arrays are taken they have the same type
// and the same length, and an array that is written is the same as another one or apart from it. Numbers of 16 bits are
// computed with as float32, and what is written is rounded once, to the nearest and to even on a tie; float32 and
// float64 in their own precision.

/// Whether none of the numbers is infinite or NaN. Looks at the bits, one pass over the memory.
bool all_finite(DataType type, std::span<const std::byte> numbers);

/// The first number that is infinite or NaN, or −1.
std::int64_t first_non_finite(DataType type, std::span<const std::byte> numbers);

/// dst = src / divisor, number by number.
void divide(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double divisor);
/// The same; where there is no src (it is empty), dst = 0.
void divide_or_clear(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double divisor);

/// dst = src × factor, number by number.
void scale(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double factor);

/// dst = (dst + src) / divisor, number by number.
void add_divide(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double divisor);

/// dst = src / divisor + (dst − old), number by number: a mean, and what dst has become since it was old.
void carry(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double divisor,
           std::span<const std::byte> old);

/// dst = a − b, number by number. dst may be a or b.
void subtract(DataType type, std::span<std::byte> dst, std::span<const std::byte> a, std::span<const std::byte> b);

/// A step of gradient descent with Nesterov's momentum (as Sutskever et al., "On the importance of initialization and
/// momentum in deep learning", ICML 2013, and PyTorch's SGD with nesterov=True write it): with g = sum / divisor,
///
///     velocity = momentum · velocity + g
///     weights = weights − lr · (g + momentum · velocity)
///
/// Number by number: the same bits wherever the same bits go in.
void nesterov_step(DataType type, std::span<std::byte> weights, std::span<std::byte> velocity,
                   std::span<const std::byte> sum, double divisor, double lr, double momentum);

/// dst += src × factor, number by number.
void add_scaled(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double factor);

/// dst = (dst + src × decay) × factor, number by number: a gradient with weight decay, times the learning rate.
void decay_and_scale(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double decay,
                     double factor);

/// velocity = velocity × momentum + sum / divisor, then dst = src − velocity, number by number; dst may be src. An
/// empty velocity is 0 and stays so.
void descend(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, std::span<std::byte> velocity,
             std::span<const std::byte> sum, double momentum, double divisor);

/// The sum of the squares, in double precision and always in the same order: the same bits on every rank, however many
/// threads compute there.
double sum_of_squares(DataType type, std::span<const std::byte> numbers);

/// How far numbers are from others: sums of squares, in double precision.
struct SquaredDistance {
  double apart = 0;  ///< of a − b / divisor
  double mean = 0;   ///< of b / divisor
};
SquaredDistance squared_distance(DataType type, std::span<const std::byte> a, std::span<const std::byte> b,
                                 double divisor);

/// The type to add many of these up in: float32 for bfloat16 and float16, otherwise `type`.
DataType wide_type(DataType type);
/// dst = src, where `src` is of `type` and `dst` of wide_type(type). Exact.
void widen(DataType type, std::span<std::byte> dst, std::span<const std::byte> src);
/// dst = src, where `src` is of wide_type(type) and `dst` of `type`: the nearest.
void narrow(DataType type, std::span<std::byte> dst, std::span<const std::byte> src);

/// A 64-bit hash (XXH3 of xxHash) of a sequence of pieces, for comparing memory that should be equal: fast, not
/// cryptographic, the same on all machines of one byte order. Where one piece ends and the next begins matters.
class Hash64 {
 public:
  static std::uint64_t of(std::span<const std::byte> piece);
  static std::uint64_t of(std::string_view piece) { return of(std::as_bytes(std::span(piece))); }

  void add(std::span<const std::byte> piece);
  void add(std::string_view piece) { add(std::as_bytes(std::span(piece))); }
  void add(std::uint64_t number);
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace stretto
