#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "stretto/ordering/orderer/orderer.h"

namespace stretto {

/// Tensors on which the members of a process set have agreed before: a request for one of them is a bit at its position
/// instead of a message. Equal on all members, position by position, since it changes by what all have agreed on alone,
/// in the order of the agreement.
class ResponseCache {
 public:
  /// `capacity`: tensors, at least one.
  explicit ResponseCache(std::size_t capacity) : capacity_(capacity) {}

  /// Positions that there have been: words of the members have a bit for each.
  std::size_t positions() const { return entries_.size(); }
  /// The tensor at a position; nothing: the position is free.
  std::optional<TensorId> at(std::size_t position) const { return entries_[position].tensor; }
  /// The position of the tensor that has this name (TensorTable::name_of()).
  std::optional<std::size_t> find(std::uint32_t name) const;

  /// The tensor at a position was agreed on once more.
  void use(std::size_t position);
  /// Enters a tensor on which the members have agreed, at the lowest free position; where all are taken, in place of
  /// the tensor whose last agreement is longest ago, which is returned. Requires: no tensor of this name is in it.
  std::optional<TensorId> enter(TensorId tensor, std::uint32_t name);
  /// Frees a position. Requires: a tensor is there.
  void evict(std::size_t position);

 private:
  struct Entry {
    std::optional<TensorId> tensor;
    std::uint32_t name = 0;
    std::uint64_t used = 0;  // in what order: the largest was used last
  };
  const std::size_t capacity_;
  std::vector<Entry> entries_;  // by position
  std::vector<std::optional<std::size_t>> position_of_name_;
  std::uint64_t uses_ = 0;
};

}  // namespace stretto
