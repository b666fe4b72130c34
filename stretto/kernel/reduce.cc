#include "stretto/kernel/reduce.h"

#include "stretto/kernel/kernels.h"

namespace stretto {

void reduce(DataType type, ReduceOp op, bool src_first, std::byte* dst, const std::byte* src, std::uint64_t count) {
  if (dst == nullptr || src == nullptr) return;
  const std::byte* const operands[] = {src_first ? src : dst, src_first ? dst : src};
  kernels_in_use().function(type, op, Kernels::Shape::pair)(dst, operands, 2, count * size_of(type));
}

}  // namespace stretto
