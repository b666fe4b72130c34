#include "stretto/kernel/mix.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "stretto/base/error.h"

namespace stretto {
namespace {

template <class T>
T load(const std::byte* from, std::uint64_t i) {
  T value;
  std::memcpy(&value, from + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* to, std::uint64_t i, T value) {
  std::memcpy(to + i * sizeof(T), &value, sizeof(T));
}

std::int64_t residue(std::int64_t x) {
  const std::int64_t r = x % kMixPrime;
  return r < 0 ? r + kMixPrime : r;
}

/// m·2^e exactly: 2 has the inverse 2^30, and 2^31 is 1.
std::int64_t residue_of(double weight) {
  int exponent = 0;
  const double mantissa = std::frexp(weight, &exponent);
  const auto whole = static_cast<std::int64_t>(std::ldexp(mantissa, 53));
  const int shift = ((exponent - 53) % 31 + 31) % 31;
  return residue(residue(whole) * (std::int64_t{1} << shift));
}

BFloat16 nearest(float x, BFloat16) {
  return to_bfloat16(x);
}
Float16 nearest(float x, Float16) {
  return to_float16(x);
}

template <class T>
struct Arithmetic {
  static T weight(double w) { return static_cast<T>(w); }
  static T add(T a, T b) { return a + b; }
  static T subtract(T a, T b) { return a - b; }
  static T multiply(T a, T b) { return a * b; }
};

template <>
struct Arithmetic<std::int64_t> {
  static std::int64_t weight(double w) { return residue_of(w); }
  static std::int64_t add(std::int64_t a, std::int64_t b) { return residue(a + b); }
  static std::int64_t subtract(std::int64_t a, std::int64_t b) { return residue(a - b); }
  static std::int64_t multiply(std::int64_t a, std::int64_t b) { return residue(residue(a) * residue(b)); }
};

/// Each result is rounded: with equal weights the two sides add and subtract the same number.
template <class T>
struct HalfArithmetic {
  static float weight(double w) { return static_cast<float>(w); }
  static T add(T a, T b) { return nearest(to_float(a) + to_float(b), T{}); }
  static T subtract(T a, T b) { return nearest(to_float(a) - to_float(b), T{}); }
  static T multiply(float a, T b) { return nearest(a * to_float(b), T{}); }
};
template <>
struct Arithmetic<BFloat16> : HalfArithmetic<BFloat16> {};
template <>
struct Arithmetic<Float16> : HalfArithmetic<Float16> {};

/// Calls `run` with an element of the type.
template <class Run>
void with_type(DataType type, Run run) {
  switch (type) {
    case DataType::float32: return run(float{});
    case DataType::float64: return run(double{});
    case DataType::int64: return run(std::int64_t{});
    case DataType::bfloat16: return run(BFloat16{});
    case DataType::float16: return run(Float16{});
    default: STRETTO_CHECK(false, "models of ", name_of(type), " do not mix");
  }
}

}  // namespace

void mix(DataType type, std::byte* mine, std::byte* theirs, std::uint64_t count, double weight, double back) {
  with_type(type, [&]<class T>(T) {
    using A = Arithmetic<T>;
    const auto w = A::weight(weight), b = A::weight(back);
    for (std::uint64_t i = 0; i < count; ++i) {
      const T x = load<T>(mine, i);
      const T difference = A::subtract(load<T>(theirs, i), x);
      store<T>(mine, i, A::add(x, A::multiply(w, difference)));
      store<T>(theirs, i, A::multiply(b, difference));
    }
  });
}

void subtract(DataType type, std::byte* dst, const std::byte* src, std::uint64_t count) {
  with_type(type, [&]<class T>(T) {
    using A = Arithmetic<T>;
    for (std::uint64_t i = 0; i < count; ++i) store<T>(dst, i, A::subtract(load<T>(dst, i), load<T>(src, i)));
  });
}

void add_move(DataType type, std::byte* dst, std::byte* base, std::byte* moved, std::uint64_t count) {
  with_type(type, [&]<class T>(T) {
    using A = Arithmetic<T>;
    for (std::uint64_t i = 0; i < count; ++i) {
      const T x = A::add(load<T>(dst, i), A::subtract(load<T>(moved, i), load<T>(base, i)));
      store<T>(dst, i, x);
      store<T>(base, i, x);
      store<T>(moved, i, x);
    }
  });
}

}  // namespace stretto
