#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "stretto/base/function_ref.h"
#include "stretto/collective/rounds/contribution.h"
#include "stretto/kernel/bucket.h"

namespace stretto {

/// The last slice that came of each other member of a line, to stand in for a missing one (Missing::previous). Memory:
/// a slice of a model for each that has come.
class PreviousSlices {
 public:
  /// `buckets`: of a model, of which this member, `own`, averages its part. Keeps none unless `keeps`.
  PreviousSlices(std::span<const BucketSpec> buckets, int own, int members, bool keeps);

  /// Copies a slice that has come of a member, in time or late, in the place of the one before. `slice`: its memory of
  /// a bucket.
  void keep(int member, FunctionRef<const std::byte*(std::size_t bucket)> slice);
  bool has(int member) const { return slices_[static_cast<std::size_t>(member)] != nullptr; }
  /// Requires: has().
  const std::byte* of(int member, std::size_t bucket) const {
    return slices_[static_cast<std::size_t>(member)]->bucket(static_cast<int>(bucket)).data();
  }
  /// Once all have come.
  std::uint64_t bytes() const;

 private:
  const bool keeps_;
  std::vector<BucketSpec> specs_;  // of a slice
  std::vector<std::unique_ptr<Contribution>> slices_;
};

}  // namespace stretto
