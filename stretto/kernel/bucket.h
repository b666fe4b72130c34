#pragma once

#include <cstdint>

#include "stretto/base/data_type.h"

namespace stretto {

/// One array of a step: all buckets of a step share one round.
struct BucketSpec {
  DataType type = DataType::float32;
  std::uint64_t count = 0;
  friend bool operator==(const BucketSpec&, const BucketSpec&) = default;
};

enum class SumOrder {
  arrival,  ///< partial rounds of large buckets are summed as contributions come: fast, bits depend on timing
  fixed,    ///< one tree, whatever the timing: repeats to the bit
};

}  // namespace stretto
