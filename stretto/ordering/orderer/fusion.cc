#include "stretto/ordering/orderer/fusion.h"

namespace stretto {

std::uint32_t Fusion::place(const TensorDescription& tensor, std::optional<std::uint32_t> behind) {
  if (!tensor.fuses) return buffers_++;
  const auto [found, first] = open_.try_emplace({tensor.set, tensor.type, tensor.op});
  Open& open = found->second;
  if (first || (behind && open.number <= *behind) || open.bytes + tensor.bytes() > limit_) {
    open = {.number = buffers_++};
  }
  open.bytes += tensor.bytes();
  return open.number;
}

}  // namespace stretto
