#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stretto/kernel/bucket.h"

namespace stretto {

/// A parameter as the layout sees it.
struct ParameterSpec {
  std::string name;
  DataType type = DataType::float32;
  std::uint64_t count = 0;
  bool trained = true;  ///< has a gradient; one that has not is broadcast and checked, but never reduced
};

/// Where a parameter lies: `offset` elements into a bucket.
struct Placement {
  int bucket = -1;  ///< −1: not trained
  std::uint64_t offset = 0;
};

/// Which parameter lies where. A pure function of the parameters and the cap: the same on every rank.
struct BucketPlan {
  std::vector<BucketSpec> buckets;
  std::vector<Placement> placements;  ///< one a parameter, in the order of the parameters
};

/// Parameters are laid out from the last to the first, as a backward pass makes their gradients ready, so that
/// bucket 0 is complete first. A bucket holds one type and at most `cap_bytes`, or one parameter that is larger.
/// `by_layer`: and parameters of one layer alone, whose names are the same up to the last dot. `alignment`: each
/// parameter begins at a multiple of so many bytes of its bucket, behind elements that are nobody's.
BucketPlan plan_buckets(std::span<const ParameterSpec> parameters, std::uint64_t cap_bytes, bool by_layer = false,
                        std::uint64_t alignment = 1);

}  // namespace stretto
