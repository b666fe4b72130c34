#include "stretto/train/flat_math.h"

#include <algorithm>
#include <array>
#include <cstring>

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

std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  state = (state ^ word) * 0xd6e8feb86659fd93ull;
  return state ^ (state >> 32);
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

void Hash64::add(std::uint64_t number) {
  state_ = mix(state_, number);
}

void Hash64::add(std::span<const std::byte> piece) {
  // Four independent lanes hide the latency of the multiplications; the length closes the piece.
  std::array<std::uint64_t, 4> lanes{state_, state_ ^ 1, state_ ^ 2, state_ ^ 3};
  constexpr std::size_t kStride = sizeof(lanes);
  std::size_t done = 0;
  for (; done + kStride <= piece.size(); done += kStride) {
    std::array<std::uint64_t, 4> words;
    std::memcpy(words.data(), piece.data() + done, kStride);
    for (std::size_t lane = 0; lane < 4; ++lane) lanes[lane] = mix(lanes[lane], words[lane]);
  }
  std::array<std::uint64_t, 4> rest{};
  if (done < piece.size()) std::memcpy(rest.data(), piece.data() + done, piece.size() - done);
  for (std::size_t lane = 0; lane < 4; ++lane) state_ = mix(mix(state_, lanes[lane]), rest[lane]);
  state_ = mix(state_, piece.size());
}

}  // namespace stretto
