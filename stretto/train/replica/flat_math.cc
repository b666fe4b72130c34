#include "stretto/train/replica/flat_math.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "stretto/base/error.h"

namespace stretto {
namespace {

template <class T>
std::span<const T> as(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// Infinite and NaN are the numbers whose exponent is all ones. The loop has no branch, so that it is vectorised.
template <class Bits>
bool any_with_exponent(const std::byte* data, std::size_t count, Bits exponent) {
  Bits found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, data + i * sizeof(Bits), sizeof(Bits));
    found |= static_cast<Bits>((bits & exponent) == exponent);
  }
  return found != 0;
}

template <class Bits>
std::int64_t first_with_exponent(std::span<const std::byte> numbers, Bits exponent) {
  constexpr std::size_t kBlock = 4096;
  const std::size_t count = numbers.size() / sizeof(Bits);
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t length = std::min(kBlock, count - start);
    if (!any_with_exponent(numbers.data() + start * sizeof(Bits), length, exponent)) continue;
    for (std::size_t i = start; i < start + length; ++i) {
      if (any_with_exponent(numbers.data() + i * sizeof(Bits), 1, exponent)) return static_cast<std::int64_t>(i);
    }
  }
  return -1;
}

template <class T>
void divide_as(std::span<std::byte> dst, std::span<const std::byte> src, double divisor) {
  auto* out = reinterpret_cast<T*>(dst.data());
  const std::span<const T> in = as<T>(src);
  const T by = static_cast<T>(divisor);
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = in[i] / by;
}

template <class T>
void scale_as(std::span<std::byte> dst, std::span<const std::byte> src, double factor) {
  auto* out = reinterpret_cast<T*>(dst.data());
  const std::span<const T> in = as<T>(src);
  const T by = static_cast<T>(factor);
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = in[i] * by;
}

template <class T>
void add_divide_as(std::span<std::byte> dst, std::span<const std::byte> src, double divisor) {
  auto* out = reinterpret_cast<T*>(dst.data());
  const std::span<const T> in = as<T>(src);
  const T by = static_cast<T>(divisor);
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = (out[i] + in[i]) / by;
}

template <class T>
void carry_as(std::span<std::byte> dst, std::span<const std::byte> src, double divisor,
              std::span<const std::byte> old) {
  auto* out = reinterpret_cast<T*>(dst.data());
  const std::span<const T> in = as<T>(src), before = as<T>(old);
  const T by = static_cast<T>(divisor);
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = in[i] / by + (out[i] - before[i]);
}

template <class T>
void subtract_as(std::span<std::byte> dst, std::span<const T> a, std::span<const T> b) {
  auto* out = reinterpret_cast<T*>(dst.data());
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = a[i] - b[i];
}

template <class T>
void nesterov_as(std::span<std::byte> weights, std::span<std::byte> velocity, std::span<const T> sum, T divisor, T lr,
                 T momentum) {
  auto* w = reinterpret_cast<T*>(weights.data());
  auto* v = reinterpret_cast<T*>(velocity.data());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const T g = sum[i] / divisor;
    v[i] = momentum * v[i] + g;
    w[i] -= lr * (g + momentum * v[i]);
  }
}

template <class T>
void add_scaled_as(std::span<std::byte> dst, std::span<const std::byte> src, double factor) {
  auto* out = reinterpret_cast<T*>(dst.data());
  const std::span<const T> in = as<T>(src);
  const T by = static_cast<T>(factor);
  for (std::size_t i = 0; i < in.size(); ++i) out[i] += in[i] * by;
}

template <class T>
void decay_and_scale_as(std::span<std::byte> dst, std::span<const std::byte> src, double decay, double factor) {
  auto* out = reinterpret_cast<T*>(dst.data());
  const std::span<const T> in = as<T>(src);
  const T pull = static_cast<T>(decay), by = static_cast<T>(factor);
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = (out[i] + in[i] * pull) * by;
}

template <class T>
void descend_as(std::span<std::byte> dst, std::span<const std::byte> src, std::span<std::byte> velocity,
                std::span<const std::byte> sum, double momentum, double divisor) {
  auto* out = reinterpret_cast<T*>(dst.data());
  auto* v = reinterpret_cast<T*>(velocity.data());
  const std::span<const T> in = as<T>(src), gradient = as<T>(sum);
  const T keep = static_cast<T>(momentum), by = static_cast<T>(divisor);
  if (velocity.empty()) {
    for (std::size_t i = 0; i < in.size(); ++i) out[i] = in[i] - gradient[i] / by;
    return;
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    v[i] = v[i] * keep + gradient[i] / by;
    out[i] = in[i] - v[i];
  }
}

// Several sums side by side, so that the loop is vectorised.
template <class T>
double squares_as(std::span<const T> in) {
  std::array<double, 8> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= in.size(); i += sums.size()) {
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += static_cast<double>(in[i + k]) * in[i + k];
  }
  for (; i < in.size(); ++i) sums[0] += static_cast<double>(in[i]) * in[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

void check_same_length(std::size_t dst, std::size_t src) {
  STRETTO_CHECK(dst == src, "source of ", src, " bytes for a destination of ", dst);
}

}  // namespace

std::int64_t first_non_finite(DataType type, std::span<const std::byte> numbers) {
  return type == DataType::float32 ? first_with_exponent<std::uint32_t>(numbers, 0x7f800000u)
                                   : first_with_exponent<std::uint64_t>(numbers, 0x7ff0000000000000ull);
}

bool all_finite(DataType type, std::span<const std::byte> numbers) {
  return first_non_finite(type, numbers) < 0;
}

void divide(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double divisor) {
  check_same_length(dst.size(), src.size());
  type == DataType::float32 ? divide_as<float>(dst, src, divisor) : divide_as<double>(dst, src, divisor);
}

void scale(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double factor) {
  check_same_length(dst.size(), src.size());
  type == DataType::float32 ? scale_as<float>(dst, src, factor) : scale_as<double>(dst, src, factor);
}

void add_divide(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double divisor) {
  check_same_length(dst.size(), src.size());
  type == DataType::float32 ? add_divide_as<float>(dst, src, divisor) : add_divide_as<double>(dst, src, divisor);
}

void carry(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double divisor,
           std::span<const std::byte> old) {
  check_same_length(dst.size(), src.size());
  check_same_length(dst.size(), old.size());
  type == DataType::float32 ? carry_as<float>(dst, src, divisor, old) : carry_as<double>(dst, src, divisor, old);
}

void subtract(DataType type, std::span<std::byte> dst, std::span<const std::byte> a, std::span<const std::byte> b) {
  check_same_length(dst.size(), a.size());
  check_same_length(dst.size(), b.size());
  type == DataType::float32 ? subtract_as(dst, as<float>(a), as<float>(b))
                            : subtract_as(dst, as<double>(a), as<double>(b));
}

void nesterov_step(DataType type, std::span<std::byte> weights, std::span<std::byte> velocity,
                   std::span<const std::byte> sum, double divisor, double lr, double momentum) {
  check_same_length(weights.size(), sum.size());
  check_same_length(velocity.size(), sum.size());
  if (type == DataType::float32) {
    nesterov_as(weights, velocity, as<float>(sum), static_cast<float>(divisor), static_cast<float>(lr),
                static_cast<float>(momentum));
  } else {
    nesterov_as(weights, velocity, as<double>(sum), divisor, lr, momentum);
  }
}

void add_scaled(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double factor) {
  check_same_length(dst.size(), src.size());
  type == DataType::float32 ? add_scaled_as<float>(dst, src, factor) : add_scaled_as<double>(dst, src, factor);
}

void decay_and_scale(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double decay,
                     double factor) {
  check_same_length(dst.size(), src.size());
  type == DataType::float32 ? decay_and_scale_as<float>(dst, src, decay, factor)
                            : decay_and_scale_as<double>(dst, src, decay, factor);
}

void descend(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, std::span<std::byte> velocity,
             std::span<const std::byte> sum, double momentum, double divisor) {
  check_same_length(dst.size(), src.size());
  check_same_length(dst.size(), sum.size());
  if (!velocity.empty()) check_same_length(dst.size(), velocity.size());
  type == DataType::float32 ? descend_as<float>(dst, src, velocity, sum, momentum, divisor)
                            : descend_as<double>(dst, src, velocity, sum, momentum, divisor);
}

double sum_of_squares(DataType type, std::span<const std::byte> numbers) {
  return type == DataType::float32 ? squares_as(as<float>(numbers)) : squares_as(as<double>(numbers));
}

std::uint64_t Hash64::of(std::span<const std::byte> piece) {
  Hash64 hash;
  hash.add(piece);
  return hash.value();
}

void Hash64::add(std::uint64_t number) {
  add(std::as_bytes(std::span(&number, 1)));
}

void Hash64::add(std::span<const std::byte> piece) {
  // The hash before is the seed of the next, so that it matters where a piece ends.
  state_ = XXH3_64bits_withSeed(piece.data(), piece.size(), state_);
}

}  // namespace stretto
