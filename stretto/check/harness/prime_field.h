#pragma once

#include <cstdint>
#include <vector>

#include "stretto/base/random.h"

namespace stretto {

/// A number modulo the prime 2^31 − 1, in place of a weight: sums, differences and quotients are exact, so that a
/// search can compare models to the bit. Different histories give the same number once in 2^31 times.
class Field {
 public:
  static constexpr std::uint64_t kPrime = (std::uint64_t{1} << 31) - 1;

  constexpr Field() = default;
  explicit constexpr Field(std::uint64_t value) : value_(value % kPrime) {}
  constexpr std::uint64_t value() const { return value_; }

  friend constexpr Field operator+(Field a, Field b) { return Field(a.value_ + b.value_); }
  friend constexpr Field operator-(Field a, Field b) { return Field(a.value_ + kPrime - b.value_); }
  friend constexpr Field operator-(Field a) { return Field() - a; }
  friend constexpr Field operator*(Field a, Field b) { return Field(a.value_ * b.value_); }
  /// Requires: b is not 0.
  friend constexpr Field operator/(Field a, Field b) { return a * b.inverse(); }
  friend constexpr bool operator==(Field, Field) = default;

 private:
  constexpr Field inverse() const {  // value^(p − 2)
    Field result(1), power(value_);
    for (std::uint64_t e = kPrime - 2; e != 0; e >>= 1) {
      if (e & 1u) result = result * power;
      power = power * power;
    }
    return result;
  }

  std::uint64_t value_ = 0;
};

/// In memory an int64 each.
using FieldVector = std::vector<Field>;

/// Requires: as many elements; of `to` there may be none, which counts as zeros.
inline void add(FieldVector& to, const FieldVector& more, Field factor = Field(1)) {
  if (to.empty()) to.resize(more.size());
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = to[i] + more[i] * factor;
}

inline FieldVector draw_vector(Random& random, std::size_t size) {
  FieldVector out;
  while (out.size() < size) out.push_back(Field(random.below(Field::kPrime)));
  return out;
}

}  // namespace stretto
