#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "stretto/ordering/orderer/description_hash.h"
#include "stretto/ordering/orderer/orderer.h"
#include "stretto/ordering/orderer/tensor_table.h"

namespace stretto {

/// Numbers the fused buffers of a process set over the whole run, and hashes what they hold.
class BufferSequence {
 public:
  /// The next buffer, of these tensors.
  FusedBuffer next(StepNumber step, std::vector<TensorId> tensors, const TensorTable& table) {
    hash_ = hashed(hash_, std::uint64_t{tensors.size()});
    for (const TensorId id : tensors) hash_ = hashed(hash_, table.hash_of(id));
    FusedBuffer buffer{.number = number_++, .step = step, .tensors = std::move(tensors), .sequence_hash = hash_};
    buffer.brought.resize(buffer.tensors.size());
    return buffer;
  }
  SequenceNumber issued() const { return number_; }  ///< buffers so far

 private:
  SequenceNumber number_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace stretto
