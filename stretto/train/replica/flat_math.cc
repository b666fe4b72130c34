#include "stretto/train/replica/flat_math.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/kernel/kernels.h"

namespace stretto {
namespace {

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

// How a loop uses an array.
struct In {
  static constexpr bool kRead = true, kWritten = false;
  template <class T>
  using Pointer = const T*;
  std::span<const std::byte> bytes;
};
struct Out {
  static constexpr bool kRead = false, kWritten = true;
  template <class T>
  using Pointer = T*;
  std::span<std::byte> bytes;
};
struct InOut {
  static constexpr bool kRead = true, kWritten = true;
  template <class T>
  using Pointer = T*;
  std::span<std::byte> bytes;
};

template <class T, class Loop, class... Arrays>
void run_as(const Loop& loop, std::size_t count, const Arrays&... arrays) {
  loop(count, reinterpret_cast<typename Arrays::template Pointer<T>>(arrays.bytes.data())...);
}

// Some numbers at a time are widened, go through the loop for float, and are narrowed. So few that they stay in the
// cache next to the processor.
template <class Loop, class... Arrays>
void run_in_float(DataType type, const Loop& loop, std::size_t count, const Arrays&... arrays) {
  constexpr std::size_t kBlock = 1024;
  alignas(64) float staged[sizeof...(arrays)][kBlock];
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t length = std::min(kBlock, count - start), offset = start * size_of(type);
    const auto read = [&](const auto& array, float* stage) {
      if constexpr (std::decay_t<decltype(array)>::kRead) widen(type, stage, array.bytes.data() + offset, length);
    };
    const auto write = [&](const auto& array, const float* stage) {
      if constexpr (std::decay_t<decltype(array)>::kWritten) narrow(type, array.bytes.data() + offset, stage, length);
    };
    const auto all = [&]<std::size_t... k>(std::index_sequence<k...>) {
      (read(arrays, staged[k]), ...);
      loop(length, static_cast<typename Arrays::template Pointer<float>>(staged[k])...);
      (write(arrays, staged[k]), ...);
    };
    all(std::index_sequence_for<Arrays...>());
  }
}

/// Calls `loop` with how many numbers there are and a pointer to those of each array: float or double.
template <class Loop, class... Arrays>
void number_by_number(DataType type, const Loop& loop, const Arrays&... arrays) {
  const std::size_t sizes[] = {arrays.bytes.size()...};
  for (const std::size_t size : sizes) {
    STRETTO_CHECK(size == sizes[0], "an array of ", size, " bytes beside one of ", sizes[0]);
  }
  const std::size_t count = sizes[0] / size_of(type);
  switch (type) {
    case DataType::float32: return run_as<float>(loop, count, arrays...);
    case DataType::float64: return run_as<double>(loop, count, arrays...);
    case DataType::bfloat16:
    case DataType::float16: return run_in_float(type, loop, count, arrays...);
    case DataType::int32:
    case DataType::int64: break;
  }
  STRETTO_CHECK(false, "arithmetic of models with ", name_of(type));
}

}  // namespace

std::int64_t first_non_finite(DataType type, std::span<const std::byte> numbers) {
  switch (type) {
    case DataType::float32: return first_with_exponent<std::uint32_t>(numbers, 0x7f800000u);
    case DataType::float64: return first_with_exponent<std::uint64_t>(numbers, 0x7ff0000000000000ull);
    case DataType::bfloat16: return first_with_exponent<std::uint16_t>(numbers, 0x7f80u);
    case DataType::float16: return first_with_exponent<std::uint16_t>(numbers, 0x7c00u);
    case DataType::int32:
    case DataType::int64: break;
  }
  return -1;  // all integers are finite
}

bool all_finite(DataType type, std::span<const std::byte> numbers) {
  return first_non_finite(type, numbers) < 0;
}

void divide(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double divisor) {
  const auto loop = [divisor]<class T>(std::size_t count, T* out, const T* in) {
    const T by = static_cast<T>(divisor);
    for (std::size_t i = 0; i < count; ++i) out[i] = in[i] / by;
  };
  number_by_number(type, loop, Out{dst}, In{src});
}

void divide_or_clear(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double divisor) {
  if (!src.empty()) return divide(type, dst, src, divisor);
  std::ranges::fill(dst, std::byte{0});
}

void scale(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double factor) {
  const auto loop = [factor]<class T>(std::size_t count, T* out, const T* in) {
    const T by = static_cast<T>(factor);
    for (std::size_t i = 0; i < count; ++i) out[i] = in[i] * by;
  };
  number_by_number(type, loop, Out{dst}, In{src});
}

void add_divide(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double divisor) {
  const auto loop = [divisor]<class T>(std::size_t count, T* out, const T* in) {
    const T by = static_cast<T>(divisor);
    for (std::size_t i = 0; i < count; ++i) out[i] = (out[i] + in[i]) / by;
  };
  number_by_number(type, loop, InOut{dst}, In{src});
}

void carry(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double divisor,
           std::span<const std::byte> old) {
  const auto loop = [divisor]<class T>(std::size_t count, T* out, const T* in, const T* before) {
    const T by = static_cast<T>(divisor);
    for (std::size_t i = 0; i < count; ++i) out[i] = in[i] / by + (out[i] - before[i]);
  };
  number_by_number(type, loop, InOut{dst}, In{src}, In{old});
}

void subtract(DataType type, std::span<std::byte> dst, std::span<const std::byte> a, std::span<const std::byte> b) {
  const auto loop = []<class T>(std::size_t count, T* out, const T* from, const T* by) {
    for (std::size_t i = 0; i < count; ++i) out[i] = from[i] - by[i];
  };
  number_by_number(type, loop, Out{dst}, In{a}, In{b});
}

void nesterov_step(DataType type, std::span<std::byte> weights, std::span<std::byte> velocity,
                   std::span<const std::byte> sum, double divisor, double lr, double momentum) {
  const auto loop = [divisor, lr, momentum]<class T>(std::size_t count, T* w, T* v, const T* in) {
    const T by = static_cast<T>(divisor), rate = static_cast<T>(lr), keep = static_cast<T>(momentum);
    for (std::size_t i = 0; i < count; ++i) {
      const T g = in[i] / by;
      v[i] = keep * v[i] + g;
      w[i] -= rate * (g + keep * v[i]);
    }
  };
  number_by_number(type, loop, InOut{weights}, InOut{velocity}, In{sum});
}

void add_scaled(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double factor) {
  const auto loop = [factor]<class T>(std::size_t count, T* out, const T* in) {
    const T by = static_cast<T>(factor);
    for (std::size_t i = 0; i < count; ++i) out[i] += in[i] * by;
  };
  number_by_number(type, loop, InOut{dst}, In{src});
}

void decay_and_scale(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, double decay,
                     double factor) {
  const auto loop = [decay, factor]<class T>(std::size_t count, T* out, const T* in) {
    const T pull = static_cast<T>(decay), by = static_cast<T>(factor);
    for (std::size_t i = 0; i < count; ++i) out[i] = (out[i] + in[i] * pull) * by;
  };
  number_by_number(type, loop, InOut{dst}, In{src});
}

void descend(DataType type, std::span<std::byte> dst, std::span<const std::byte> src, std::span<std::byte> velocity,
             std::span<const std::byte> sum, double momentum, double divisor) {
  if (velocity.empty()) {
    const auto loop = [divisor]<class T>(std::size_t count, T* out, const T* in, const T* gradient) {
      const T by = static_cast<T>(divisor);
      for (std::size_t i = 0; i < count; ++i) out[i] = in[i] - gradient[i] / by;
    };
    return number_by_number(type, loop, Out{dst}, In{src}, In{sum});
  }
  const auto loop = [momentum, divisor]<class T>(std::size_t count, T* out, const T* in, T* v, const T* gradient) {
    const T keep = static_cast<T>(momentum), by = static_cast<T>(divisor);
    for (std::size_t i = 0; i < count; ++i) {
      v[i] = v[i] * keep + gradient[i] / by;
      out[i] = in[i] - v[i];
    }
  };
  number_by_number(type, loop, Out{dst}, In{src}, InOut{velocity}, In{sum});
}

double sum_of_squares(DataType type, std::span<const std::byte> numbers) {
  std::array<double, 8> sums{};  // several side by side, so that the loop is vectorised
  const auto loop = [&sums]<class T>(std::size_t count, const T* in) {
    std::array<double, 8> own = sums;
    std::size_t i = 0;
    for (; i + own.size() <= count; i += own.size()) {
      for (std::size_t k = 0; k < own.size(); ++k) own[k] += static_cast<double>(in[i + k]) * in[i + k];
    }
    for (; i < count; ++i) own[0] += static_cast<double>(in[i]) * in[i];
    sums = own;
  };
  number_by_number(type, loop, In{numbers});
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

SquaredDistance squared_distance(DataType type, std::span<const std::byte> a, std::span<const std::byte> b,
                                 double divisor) {
  SquaredDistance sums;
  const auto loop = [&sums, divisor]<class T>(std::size_t count, const T* own, const T* sum) {
    for (std::size_t i = 0; i < count; ++i) {
      const double mean = static_cast<double>(sum[i]) / divisor;
      const double apart = static_cast<double>(own[i]) - mean;
      sums.apart += apart * apart;
      sums.mean += mean * mean;
    }
  };
  number_by_number(type, loop, In{a}, In{b});
  return sums;
}

DataType wide_type(DataType type) {
  return is_half(type) ? DataType::float32 : type;
}

void widen(DataType type, std::span<std::byte> dst, std::span<const std::byte> src) {
  const std::size_t count = src.size() / size_of(type);
  STRETTO_CHECK(dst.size() == count * size_of(wide_type(type)), dst.size(), " bytes for ", count, " numbers");
  if (is_half(type)) return widen(type, reinterpret_cast<float*>(dst.data()), src.data(), count);
  std::ranges::copy(src, dst.begin());
}

void narrow(DataType type, std::span<std::byte> dst, std::span<const std::byte> src) {
  const std::size_t count = dst.size() / size_of(type);
  STRETTO_CHECK(src.size() == count * size_of(wide_type(type)), src.size(), " bytes for ", count, " numbers");
  if (is_half(type)) return narrow(type, dst.data(), reinterpret_cast<const float*>(src.data()), count);
  std::ranges::copy(src, dst.begin());
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
