#include "stretto/collective/contribution.h"

#include <algorithm>
#include <cstring>

namespace stretto {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Contribution::Contribution(std::span<const BucketSpec> buckets, int index) : index_(index) {
  std::size_t total = 0;
  for (const auto& bucket : buckets) total += aligned(bucket.count * size_of(bucket.type));
  memory_ = Block(std::max(total, kAlignment));
  std::memset(memory_.data(), 0, memory_.capacity());
  std::byte* at = memory_.data();
  for (const auto& bucket : buckets) {
    const std::size_t bytes = bucket.count * size_of(bucket.type);
    buckets_.emplace_back(at, bytes);
    at += aligned(bytes);
  }
}

}  // namespace stretto
