#pragma once

// The source of all kernels, compiled once for each instruction set by plain.cc, avx2.cc and avx512.cc. Everything in
// it is in an unnamed namespace, and it includes nothing whose functions the linker might merge with those of other
// files: code for AVX-512 that another file happens to run kills the process on a processor without.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "stretto/base/half.h"
#include "stretto/kernel/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stretto {
namespace {
// NOLINTBEGIN(misc-definitions-in-headers): no header for anybody else

#define STRETTO_INLINE [[gnu::always_inline]] static inline

#if defined(__AVX512BW__)
constexpr int kWidest = 64;
#elif defined(__AVX2__)
constexpr int kWidest = 32;
#else
constexpr int kWidest = 16;
#endif
constexpr int kNarrow = 16;  // for what is left at the end

template <class T, int kBytes>
struct VectorType {
  typedef T Type __attribute__((vector_size(kBytes)));  // NOLINT(modernize-use-using): an alias drops the attribute
};
template <class T, int kBytes>
using Vector = typename VectorType<T, kBytes>::Type;

template <class V>
STRETTO_INLINE V load(const std::byte* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(V));
  return v;
}

template <class V>
STRETTO_INLINE void store(std::byte* to, V v) {
  __builtin_memcpy(to, &v, sizeof(V));
}

template <class V>
STRETTO_INLINE void store_streaming(std::byte* to, V v) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(V) == 64) return _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)v);
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32) return _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)v);
#endif
#if defined(__x86_64__)
  if constexpr (sizeof(V) == 16) return _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)v);
  if constexpr (sizeof(V) == 8) return _mm_stream_si64(reinterpret_cast<long long*>(to), (long long)v);
#endif
  store(to, v);
}

// An Arithmetic says how vectors of one type are combined by one operation: Memory is a vector as it lies in memory,
// Value as it is computed with. Widths are of Value.

template <class T, ReduceOp kOp, int kWidth>
struct Numbers {
  using Element = T;
  using Memory = Vector<T, kWidth>;
  using Value = Memory;
  STRETTO_INLINE Value widen(Memory v) { return v; }
  STRETTO_INLINE Memory narrow(Value v) { return v; }
  STRETTO_INLINE Value apply(Value a, Value b) {
    // A NaN stays: with a in one b is not taken, and with b in one a neither is less nor greater.
    if constexpr (std::is_floating_point_v<T> && kOp == ReduceOp::min) {
      return ((a < b) | (a != a)) ? a : b;
    } else if constexpr (std::is_floating_point_v<T> && kOp == ReduceOp::max) {
      return ((a > b) | (a != a)) ? a : b;
    } else if constexpr (kOp == ReduceOp::min) {
      return a < b ? a : b;
    } else if constexpr (kOp == ReduceOp::max) {
      return a > b ? a : b;
    } else if constexpr (kOp == ReduceOp::bit_and) {
      return a & b;
    } else if constexpr (std::is_integral_v<T>) {
      using Wrapping = Vector<std::make_unsigned_t<T>, kWidth>;
      return (Value)((Wrapping)a + (Wrapping)b);
    } else {
      return a + b;
    }
  }
};

/// Sums of bfloat16 as floats whose lower half is zero.
template <int kWidth>
struct Bfloat16Sums {
  using Element = BFloat16;
  using Memory = Vector<std::uint16_t, kWidth / 2>;
  using Value = Vector<float, kWidth>;
  using Bits = Vector<std::uint32_t, kWidth>;
  STRETTO_INLINE Value widen(Memory v) { return (Value)(__builtin_convertvector(v, Bits) << 16); }
  STRETTO_INLINE Memory narrow(Value v) { return __builtin_convertvector((Bits)v >> 16, Memory); }
  STRETTO_INLINE Value apply(Value a, Value b) { return round(a + b); }
  STRETTO_INLINE Memory nearest(Value v) { return narrow(round(v)); }

 private:
  STRETTO_INLINE Value round(Value v) { return (Value)(half::round_to_bfloat16<Bits>(v) & 0xffff0000u); }
};

/// Sums of float16 as floats that a float16 can be.
template <int kWidth>
struct Float16Sums {
  using Element = Float16;
  using Memory = Vector<std::uint16_t, kWidth / 2>;
  using Value = Vector<float, kWidth>;
  using Bits = Vector<std::uint32_t, kWidth>;
  STRETTO_INLINE Value widen(Memory v) {
#if defined(__AVX512BW__)
    // With a mask: g++ 12 warns of what its own header leaves undefined without.
    if constexpr (kWidth == 64) return (Value)_mm512_maskz_cvtph_ps(0xffff, (__m256i)v);
#endif
#if defined(__F16C__)
    if constexpr (kWidth == 32) return (Value)_mm256_cvtph_ps((__m128i)v);
    if constexpr (kWidth == 16) {
      return (Value)_mm_cvtph_ps(_mm_cvtsi64_si128((long long)v));
    }
#endif
    return half::widen_float16<Value>(__builtin_convertvector(v, Bits));
  }
  STRETTO_INLINE Memory narrow(Value v) {
#if defined(__AVX512BW__)
    if constexpr (kWidth == 64) return (Memory)_mm512_maskz_cvtps_ph(0xffff, (__m512)v, _MM_FROUND_TO_NEAREST_INT);
#endif
#if defined(__F16C__)
    if constexpr (kWidth == 32) return (Memory)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
    if constexpr (kWidth == 16) {
      return (Memory)_mm_cvtsi128_si64(_mm_cvtps_ph((__m128)v, _MM_FROUND_TO_NEAREST_INT));
    }
#endif
    return __builtin_convertvector(half::narrow_float16<Bits>(v), Memory);
  }
  STRETTO_INLINE Value apply(Value a, Value b) {
    return widen(narrow(a + b));
  }
  STRETTO_INLINE Memory nearest(Value v) {
    return narrow(v);
  }
};

/// Minima and maxima of 16-bit numbers need no arithmetic: sign and magnitude order as integers do.
template <class T, ReduceOp kOp, std::int16_t kInfinity, int kWidth>
struct HalfOrder {
  using Element = T;
  using Memory = Vector<std::int16_t, kWidth>;
  using Value = Memory;
  STRETTO_INLINE Value widen(Memory v) { return v; }
  STRETTO_INLINE Memory narrow(Value v) { return v; }
  STRETTO_INLINE Value magnitude(Value v) { return v & std::int16_t{0x7fff}; }
  STRETTO_INLINE Value apply(Value a, Value b) {
    const Value key_a = v_signed(a), key_b = v_signed(b);
    // A NaN stays, as with wider numbers.
    const Value nan_a = magnitude(a) > kInfinity, number_b = magnitude(b) <= kInfinity;
    const Value first = nan_a | ((kOp == ReduceOp::min ? key_a < key_b : key_a > key_b) & number_b);
    return (a & first) | (b & ~first);
  }

 private:
  STRETTO_INLINE Value v_signed(Value v) { return v < 0 ? -magnitude(v) : v; }
};

template <class T, ReduceOp kOp, int kWidth>
struct ArithmeticOf {
  using Type = Numbers<T, kOp, kWidth>;
};
template <ReduceOp kOp, int kWidth>
struct ArithmeticOf<BFloat16, kOp, kWidth> {
  using Type = HalfOrder<BFloat16, kOp, 0x7f80, kWidth>;
};
template <ReduceOp kOp, int kWidth>
struct ArithmeticOf<Float16, kOp, kWidth> {
  using Type = HalfOrder<Float16, kOp, 0x7c00, kWidth>;
};
template <int kWidth>
struct ArithmeticOf<BFloat16, ReduceOp::sum, kWidth> {
  using Type = Bfloat16Sums<kWidth>;
};
template <int kWidth>
struct ArithmeticOf<Float16, ReduceOp::sum, kWidth> {
  using Type = Float16Sums<kWidth>;
};

/// Whole vectors: what lies in memory from `from` on.
template <class A>
struct Whole {
  STRETTO_INLINE typename A::Value load(const std::byte* from) {
    return A::widen(stretto::load<typename A::Memory>(from));
  }
};

/// The first kBytes < 16 of a vector; the rest of it is 0.
template <class A, int kBytes>
struct Part {
  STRETTO_INLINE typename A::Value load(const std::byte* from) {
    Vector<std::uint64_t, sizeof(typename A::Memory) < 16 ? 8 : 16> v{};
    std::uint64_t lowest = 0;
    __builtin_memcpy(&lowest, from, kBytes);
    v[0] = lowest;
    return A::widen((typename A::Memory)v);
  }
};

/// Perfect trees of n operands.
template <int n>
struct Tree {
  template <class A, class Loader>
  STRETTO_INLINE typename A::Value at(const std::byte* const* operands, int, std::uint64_t offset) {
    if constexpr (n == 1) {
      return Loader::load(operands[0] + offset);
    } else {
      return A::apply(Tree<n / 2>::template at<A, Loader>(operands, 0, offset),
                      Tree<n / 2>::template at<A, Loader>(operands + n / 2, 0, offset));
    }
  }
};

struct Chain {
  template <class A, class Loader>
  STRETTO_INLINE typename A::Value at(const std::byte* const* operands, int num_operands, std::uint64_t offset) {
    typename A::Value v = Loader::load(operands[0] + offset);
    for (int i = 1; i < num_operands; ++i) v = A::apply(v, Loader::load(operands[i] + offset));
    return v;
  }
};

/// The bytes of whole vectors, some at once, so that a chain's additions need not wait for one another.
/// Returns how far it came.
template <class A, class Shape, bool kStreaming>
STRETTO_INLINE std::uint64_t combine_vectors(std::byte* dst, const std::byte* const* operands, int num_operands,
                                             std::uint64_t begin, std::uint64_t bytes) {
  constexpr std::uint64_t kSize = sizeof(typename A::Memory);
  constexpr int kAtOnce = 4;
  const auto put = [dst](std::uint64_t at, typename A::Value v) __attribute__((always_inline)) {
    kStreaming ? store_streaming(dst + at, A::narrow(v)) : store(dst + at, A::narrow(v));
  };
  std::uint64_t at = begin;
  if constexpr (std::is_same_v<Shape, Chain>) {
    for (; at + kAtOnce * kSize <= bytes; at += kAtOnce * kSize) {
      typename A::Value v[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k) v[k] = Whole<A>::load(operands[0] + at + k * kSize);
      for (int i = 1; i < num_operands; ++i) {
        const std::byte* operand = operands[i] + at;
        for (int k = 0; k < kAtOnce; ++k) v[k] = A::apply(v[k], Whole<A>::load(operand + k * kSize));
      }
      for (int k = 0; k < kAtOnce; ++k) put(at + k * kSize, v[k]);
    }
  }
  for (; at + kSize <= bytes; at += kSize) put(at, Shape::template at<A, Whole<A>>(operands, num_operands, at));
  return at;
}

template <class A, class Shape, int kBytes>
STRETTO_INLINE std::uint64_t combine_part(std::byte* dst, const std::byte* const* operands, int num_operands,
                                          std::uint64_t at, std::uint64_t bytes) {
  if constexpr (kBytes >= static_cast<int>(sizeof(typename A::Element)) &&
                kBytes < static_cast<int>(sizeof(typename A::Memory))) {
    if ((bytes - at) & kBytes) {
      const auto v = A::narrow(Shape::template at<A, Part<A, kBytes>>(operands, num_operands, at));
      __builtin_memcpy(dst + at, &v, kBytes);
      return at + kBytes;
    }
  }
  return at;
}

template <class T, ReduceOp kOp, class Shape, bool kStreaming>
void combine_operands(std::byte* dst, const std::byte* const* operands, int num_operands, std::uint64_t bytes) {
  using Wide = typename ArithmeticOf<T, kOp, kWidest>::Type;
  std::uint64_t at = combine_vectors<Wide, Shape, kStreaming>(dst, operands, num_operands, 0, bytes);
  if constexpr (!kStreaming) {
    using Rest = typename ArithmeticOf<T, kOp, kNarrow>::Type;
    if (at == bytes) return;
    if constexpr (kWidest > kNarrow) {
      at = combine_vectors<Rest, Shape, false>(dst, operands, num_operands, at, bytes);
    }
    at = combine_part<Rest, Shape, 8>(dst, operands, num_operands, at, bytes);
    at = combine_part<Rest, Shape, 4>(dst, operands, num_operands, at, bytes);
    combine_part<Rest, Shape, 2>(dst, operands, num_operands, at, bytes);
  }
}

STRETTO_INLINE void assign_nearest(BFloat16& to, float x) {
  to = to_bfloat16(x);
}
STRETTO_INLINE void assign_nearest(Float16& to, float x) {
  to = to_float16(x);
}

template <class A>
void widen_all(std::byte* dst, const std::byte* src, std::uint64_t count) {
  constexpr std::uint64_t kAtOnce = sizeof(typename A::Value) / sizeof(float);
  std::uint64_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
    store(dst + i * sizeof(float), A::widen(load<typename A::Memory>(src + i * sizeof(typename A::Element))));
  }
  for (; i < count; ++i) {
    store(dst + i * sizeof(float), to_float(load<typename A::Element>(src + i * sizeof(typename A::Element))));
  }
}

template <class A>
void narrow_all(std::byte* dst, const std::byte* src, std::uint64_t count) {
  constexpr std::uint64_t kAtOnce = sizeof(typename A::Value) / sizeof(float);
  std::uint64_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
    store(dst + i * sizeof(typename A::Element), A::nearest(load<typename A::Value>(src + i * sizeof(float))));
  }
  for (; i < count; ++i) {
    typename A::Element number;
    assign_nearest(number, load<float>(src + i * sizeof(float)));
    store(dst + i * sizeof(number), number);
  }
}

void copy_streaming(std::byte* dst, const std::byte* src, std::uint64_t bytes) {
  using V = Vector<std::uint64_t, kWidest>;
  for (std::uint64_t at = 0; at < bytes; at += sizeof(V)) store_streaming(dst + at, load<V>(src + at));
}

void fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// In the order of the enumerations.
#define STRETTO_OPERATION(T, op, streaming)                                                    \
  {                                                                                            \
    combine_operands<T, op, Tree<2>, streaming>, combine_operands<T, op, Tree<4>, streaming>,  \
        combine_operands<T, op, Tree<8>, streaming>, combine_operands<T, op, Chain, streaming> \
  }
#define STRETTO_ORDERED_TYPE(T, streaming)                                                        \
  STRETTO_OPERATION(T, ReduceOp::sum, streaming), STRETTO_OPERATION(T, ReduceOp::min, streaming), \
      STRETTO_OPERATION(T, ReduceOp::max, streaming)
#define STRETTO_FLOATS(T, streaming)       \
  {                                        \
    STRETTO_ORDERED_TYPE(T, streaming), {} \
  }
#define STRETTO_INTEGERS(T, streaming) \
  { STRETTO_ORDERED_TYPE(T, streaming), STRETTO_OPERATION(T, ReduceOp::bit_and, streaming) }
#define STRETTO_TYPES(streaming)                                                                                    \
  {                                                                                                                 \
    STRETTO_FLOATS(float, streaming), STRETTO_FLOATS(double, streaming), STRETTO_INTEGERS(std::int32_t, streaming), \
        STRETTO_INTEGERS(std::int64_t, streaming), STRETTO_FLOATS(BFloat16, streaming),                             \
        STRETTO_FLOATS(Float16, streaming)                                                                          \
  }
#define STRETTO_KERNELS(name)                                                  \
  {                                                                            \
    name, STRETTO_TYPES(false), STRETTO_TYPES(true), copy_streaming, fence,    \
        {widen_all<Bfloat16Sums<kWidest>>, widen_all<Float16Sums<kWidest>>}, { \
      narrow_all<Bfloat16Sums<kWidest>>, narrow_all<Float16Sums<kWidest>>      \
    }                                                                          \
  }

// NOLINTEND(misc-definitions-in-headers)
}  // namespace
}  // namespace stretto
