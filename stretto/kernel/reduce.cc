#include "stretto/kernel/reduce.h"

#include <type_traits>

namespace stretto {
namespace {

template <class T>
T wrapping_sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

template <class T, class F>
void combine(std::byte* dst, const std::byte* src, std::uint64_t count, F f) {
  T* __restrict to = reinterpret_cast<T*>(dst);
  const T* __restrict from = reinterpret_cast<const T*>(src);
  for (std::uint64_t i = 0; i < count; ++i) to[i] = f(to[i], from[i]);
}

template <class T>
void reduce_typed(ReduceOp op, bool src_first, std::byte* dst, const std::byte* src, std::uint64_t count) {
  const auto minimum = [](T a, T b) { return a < b ? a : b; };
  const auto maximum = [](T a, T b) { return a > b ? a : b; };
  switch (op) {
    case ReduceOp::sum: return combine<T>(dst, src, count, wrapping_sum<T>);
    case ReduceOp::min:
      if (src_first) return combine<T>(dst, src, count, [&](T d, T s) { return minimum(s, d); });
      return combine<T>(dst, src, count, minimum);
    case ReduceOp::max:
      if (src_first) return combine<T>(dst, src, count, [&](T d, T s) { return maximum(s, d); });
      return combine<T>(dst, src, count, maximum);
  }
}

}  // namespace

void reduce(DataType type, ReduceOp op, bool src_first, std::byte* dst, const std::byte* src, std::uint64_t count) {
  if (dst == nullptr || src == nullptr) return;
  switch (type) {
    case DataType::float32: return reduce_typed<float>(op, src_first, dst, src, count);
    case DataType::float64: return reduce_typed<double>(op, src_first, dst, src, count);
    case DataType::int32: return reduce_typed<std::int32_t>(op, src_first, dst, src, count);
    case DataType::int64: return reduce_typed<std::int64_t>(op, src_first, dst, src, count);
    case DataType::bfloat16: return reduce_typed<BFloat16>(op, src_first, dst, src, count);
    case DataType::float16: return reduce_typed<Float16>(op, src_first, dst, src, count);
  }
}

}  // namespace stretto
