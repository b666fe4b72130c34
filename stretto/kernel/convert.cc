#include "stretto/kernel/convert.h"

#include "stretto/base/error.h"
#include "stretto/kernel/kernels.h"

namespace stretto {
namespace {

int index_of(DataType type) {
  STRETTO_CHECK(is_half(type), "conversion of ", name_of(type), ", which has no 16 bits");
  return type == DataType::bfloat16 ? 0 : 1;
}

}  // namespace

void widen(DataType type, float* dst, const std::byte* src, std::uint64_t count) {
  kernels_in_use().widen[index_of(type)](reinterpret_cast<std::byte*>(dst), src, count);
}

void narrow(DataType type, std::byte* dst, const float* src, std::uint64_t count) {
  kernels_in_use().narrow[index_of(type)](dst, reinterpret_cast<const std::byte*>(src), count);
}

}  // namespace stretto
