#include "stretto/collective/rounds/contribution.h"

#include <cstring>
#include <memory>

#include "stretto/base/align.h"

namespace stretto {

std::uint64_t Contribution::bytes_needed(std::span<const BucketSpec> buckets) {
  std::uint64_t total = 0;
  for (const auto& bucket : buckets) total += round_up(bucket.count * size_of(bucket.type), kCacheLine);
  return total;
}

Contribution::Contribution(std::span<const BucketSpec> buckets, int index) : index_(index) {
  // Whole pages, on which nothing else lies: a device refuses to copy what it has registered in part.
  const std::uint64_t bytes = round_up(bytes_needed(buckets), kPage);
  memory_ = Block(bytes + kPage);
  std::size_t room = memory_.capacity();
  void* begin = memory_.data();
  std::align(kPage, bytes, begin, room);
  std::memset(begin, 0, bytes);
  lay_out({static_cast<std::byte*>(begin), bytes}, buckets);
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
