#include "stretto/papers/pairs/shared_model.h"

#include <cstring>

#include "stretto/kernel/mix.h"

namespace stretto {
namespace {

std::size_t index(int bucket) {
  return static_cast<std::size_t>(bucket);
}

void copy(std::span<std::byte> to, std::span<const std::byte> from) {
  if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
}

}  // namespace

SharedModel::SharedModel(const std::vector<BucketSpec>& buckets)
    : buckets_(buckets), base_(buckets, 0), read_at_(buckets.size()), model_(buckets, 1), changes_(buckets.size()) {
  for (const BucketSpec& bucket : buckets_) memory_bytes_ += 2 * bucket.count * size_of(bucket.type);
}

void SharedModel::begin(int bucket, std::span<const std::byte> value) {
  const MutexLock lock(mutex_);
  copy(model(bucket), value);
  copy(base_.bucket(bucket), value);
  read_at_[index(bucket)] = changes_[index(bucket)];
}

void SharedModel::read(int bucket, std::span<std::byte> to) {
  const MutexLock lock(mutex_);
  copy(to, model(bucket));
}

std::uint64_t SharedModel::add_own(int bucket, std::span<std::byte> moved) {
  const BucketSpec& spec = buckets_[index(bucket)];
  const MutexLock lock(mutex_);
  const std::uint64_t changes = changes_[index(bucket)];
  const std::uint64_t by_others = changes - read_at_[index(bucket)];
  read_at_[index(bucket)] = changes;
  if (by_others == 0) {
    copy(model(bucket), moved);
    copy(base_.bucket(bucket), moved);
  } else {
    add_move(spec.type, model(bucket).data(), base_.bucket(bucket).data(), moved.data(), spec.count);
  }
  return by_others;
}

void SharedModel::mix_with(int bucket, std::span<std::byte> theirs, double weight, double back) {
  const BucketSpec& spec = buckets_[index(bucket)];
  const MutexLock lock(mutex_);
  mix(spec.type, model(bucket).data(), theirs.data(), spec.count, weight, back);
  ++changes_[index(bucket)];
}

void SharedModel::subtract(int bucket, std::span<const std::byte> change) {
  const BucketSpec& spec = buckets_[index(bucket)];
  const MutexLock lock(mutex_);
  stretto::subtract(spec.type, model(bucket).data(), change.data(), spec.count);
  ++changes_[index(bucket)];
}

}  // namespace stretto
