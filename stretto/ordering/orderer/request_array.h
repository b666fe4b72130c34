#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "stretto/ordering/orderer/orderer.h"

namespace stretto {

/// Which tensors of a plan this rank has submitted in the open step: a slot for each, buffer by buffer.
class RequestArray {
 public:
  /// `buffers`: tensors by buffer, each once.
  explicit RequestArray(std::vector<std::vector<TensorId>> buffers) : buffers_(std::move(buffers)) {
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      for (const TensorId id : buffers_[b]) {
        if (slots_.size() <= id) slots_.resize(id + std::size_t{1});
        slots_[id] = {.buffer = static_cast<std::uint32_t>(b), .planned = true};
      }
    }
    clear();
  }

  std::size_t size() const { return buffers_.size(); }                                         ///< buffers
  const std::vector<TensorId>& tensors(std::size_t buffer) const { return buffers_[buffer]; }  ///< of a buffer
  /// The buffer of a tensor; nothing: it is not in the plan.
  std::optional<std::size_t> buffer_of(TensorId id) const {
    return id < slots_.size() && slots_[id].planned ? std::optional<std::size_t>(slots_[id].buffer) : std::nullopt;
  }
  /// How many tensors of the plan come before it, in the order of buffers. Requires: in the plan.
  std::size_t place(TensorId id) const {
    std::size_t place = 0;
    for (std::size_t b = 0; b < slots_[id].buffer; ++b) place += buffers_[b].size();
    const std::vector<TensorId>& mates = buffers_[slots_[id].buffer];
    return place + static_cast<std::size_t>(std::ranges::find(mates, id) - mates.begin());
  }
  /// The next step begins: nothing is submitted.
  void clear() {
    missing_.clear();
    for (const auto& buffer : buffers_) missing_.push_back(buffer.size());
    for (Slot& slot : slots_) slot.submitted = false;
  }
  /// Requires: in the plan, and not submitted.
  void submit(TensorId id) {
    slots_[id].submitted = true;
    --missing_[slots_[id].buffer];
  }
  bool submitted(TensorId id) const { return slots_[id].submitted; }     ///< Requires: in the plan
  bool full(std::size_t buffer) const { return missing_[buffer] == 0; }  ///< all its tensors are submitted
  /// The first tensor of a buffer that is not submitted; nothing: it is full.
  std::optional<TensorId> missing(std::size_t buffer) const {
    for (const TensorId id : buffers_[buffer]) {
      if (!slots_[id].submitted) return id;
    }
    return std::nullopt;
  }

 private:
  struct Slot {
    std::uint32_t buffer = 0;
    bool planned = false;
    bool submitted = false;
  };
  std::vector<std::vector<TensorId>> buffers_;
  std::vector<Slot> slots_;           // by id
  std::vector<std::size_t> missing_;  // tensors, by buffer
};

}  // namespace stretto
