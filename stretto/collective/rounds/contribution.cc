#include "stretto/collective/rounds/contribution.h"

#include <algorithm>
#include <cstring>

#include "stretto/base/machine/pages.h"

namespace stretto {

std::uint64_t Contribution::bytes_needed(std::span<const BucketSpec> buckets) {
  std::uint64_t total = 0;
  for (const auto& bucket : buckets) total += round_up(bucket.count * size_of(bucket.type), kCacheLine);
  return total;
}

Contribution::Contribution(std::span<const BucketSpec> buckets, int index) : index_(index) {
  memory_ = Block(std::max(bytes_needed(buckets), kCacheLine));
  std::memset(memory_.data(), 0, memory_.capacity());
  lay_out({memory_.data(), memory_.capacity()}, buckets);
}

Contribution::Contribution(std::span<std::byte> memory, std::span<const BucketSpec> buckets, int index)
    : index_(index) {
  lay_out(memory, buckets);
}

void Contribution::lay_out(std::span<std::byte> memory, std::span<const BucketSpec> buckets) {
  for (const auto& bucket : buckets) {
    const std::uint64_t bytes = bucket.count * size_of(bucket.type);
    buckets_.push_back(memory.first(bytes));
    memory = memory.subspan(round_up(bytes, kCacheLine));
  }
}

}  // namespace stretto
