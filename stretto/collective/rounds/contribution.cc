#include "stretto/collective/rounds/contribution.h"

#include <algorithm>
#include <cstring>

#include "stretto/base/align.h"

namespace stretto {

Contribution::Contribution(std::span<const BucketSpec> buckets, int index) : index_(index) {
  std::size_t total = 0;
  for (const auto& bucket : buckets) total += round_up(bucket.count * size_of(bucket.type), kCacheLine);
  memory_ = Block(std::max(total, kCacheLine));
  std::memset(memory_.data(), 0, memory_.capacity());
  std::byte* at = memory_.data();
  for (const auto& bucket : buckets) {
    const std::size_t bytes = bucket.count * size_of(bucket.type);
    buckets_.emplace_back(at, bytes);
    at += round_up(bytes, kCacheLine);
  }
}

}  // namespace stretto
