#include "stretto/collective/rounds/lines/previous_slices.h"

#include <algorithm>

#include "stretto/collective/schedules/part.h"

namespace stretto {

PreviousSlices::PreviousSlices(std::span<const BucketSpec> buckets, int own, int members, bool keeps)
    : keeps_(keeps), specs_(buckets.begin(), buckets.end()), slices_(static_cast<std::size_t>(members)) {
  for (BucketSpec& bucket : specs_) bucket.count = part(bucket.count, own, members).count();
}

void PreviousSlices::keep(int member, FunctionRef<const std::byte*(std::size_t bucket)> slice) {
  if (!keeps_) return;
  std::unique_ptr<Contribution>& kept = slices_[static_cast<std::size_t>(member)];
  if (kept == nullptr) kept = std::make_unique<Contribution>(specs_, member);
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const std::span<std::byte> to = kept->bucket(static_cast<int>(i));
    if (!to.empty()) std::copy_n(slice(i), to.size(), to.data());
  }
}

std::uint64_t PreviousSlices::bytes() const {
  return keeps_ ? (slices_.size() - 1) * Contribution::bytes_needed(specs_) : 0;
}

}  // namespace stretto
