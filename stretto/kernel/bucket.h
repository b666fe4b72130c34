#pragma once

#include <cstdint>

#include "stretto/base/data_type.h"

namespace stretto {

/// One array of a step.
struct BucketSpec {
  DataType type = DataType::float32;                                       ///< of an element
  std::uint64_t count = 0;                                                 ///< elements
  friend bool operator==(const BucketSpec&, const BucketSpec&) = default;  ///< both fields are equal
};

/// In which order the contributions of a round are added.
enum class SumOrder {
  arrival,  ///< partial rounds of large buckets are summed as contributions come: fast, bits depend on timing
  fixed,    ///< one tree, whatever the timing: repeats to the bit
};

}  // namespace stretto
