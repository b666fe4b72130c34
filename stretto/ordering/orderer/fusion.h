#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "stretto/base/data_type.h"
#include "stretto/ordering/orderer/graph.h"

namespace stretto {

/// Puts tensors together, one after the other: buffers are numbered from 0 as they open, and of each process set, type
/// and operation one is open at a time.
class Fusion {
 public:
  /// `limit`: bytes of a buffer; a larger tensor has its own.
  explicit Fusion(std::uint64_t limit) : limit_(limit) {}

  /// The number of the buffer that takes the tensor: the open one where it fits and its number is above `behind`, else
  /// a new one, whose number is buffers() of before.
  std::uint32_t place(const TensorDescription& tensor, std::optional<std::uint32_t> behind = {}) {
    if (!tensor.fuses) return buffers_++;
    const auto [found, first] = open_.try_emplace({tensor.set, tensor.type, tensor.op});
    Open& open = found->second;
    if (first || (behind && open.number <= *behind) || open.bytes + tensor.bytes() > limit_) {
      open = {.number = buffers_++};
    }
    open.bytes += tensor.bytes();
    return open.number;
  }

  std::uint32_t buffers() const { return buffers_; }  ///< opened so far

 private:
  struct Open {
    std::uint32_t number = 0;
    std::uint64_t bytes = 0;
  };
  const std::uint64_t limit_;
  std::uint32_t buffers_ = 0;
  std::map<std::tuple<int, DataType, ReduceOp>, Open> open_;
};

}  // namespace stretto
