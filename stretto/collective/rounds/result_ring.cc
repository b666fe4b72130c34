#include "stretto/collective/rounds/result_ring.h"

#include <cstring>
#include <utility>

namespace stretto {

ResultSlot::ResultSlot(std::span<const BucketSpec> specs) {
  for (const auto& spec : specs) {
    bytes.push_back(spec.count * size_of(spec.type));
    memory.emplace_back(bytes.back() == 0 ? 64 : bytes.back());
    buckets.emplace_back();
  }
}

void ResultSlot::show(std::size_t bucket, bool present) {
  buckets[bucket] =
      present ? std::span<const std::byte>(memory[bucket].data(), bytes[bucket]) : std::span<const std::byte>();
}

void ResultSlot::copy_from(const ResultSlot& other) {
  round = other.round;
  policy = other.policy;
  header = other.header;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const bool present = other.buckets[i].data() != nullptr;
    if (present) std::memcpy(memory[i].data(), other.buckets[i].data(), bytes[i]);
    show(i, present);
  }
}

ResultRing::ResultRing(std::span<const BucketSpec> specs, int results) {
  for (int i = 0; i < results; ++i) slots_.emplace_back(specs);
}

void LatestResult::publish(const ResultSlot& slot) {
  MutexLock lock(mutex_);
  if (fresh_) passed_.push_back({newest_.round, newest_.policy, newest_.header});
  newest_.copy_from(slot);
  fresh_ = true;
}

const ResultSlot& LatestResult::read() {
  MutexLock lock(mutex_);
  read_passed_.clear();
  if (std::exchange(fresh_, false)) std::swap(newest_, reading_);
  read_passed_.swap(passed_);
  return reading_;
}

}  // namespace stretto
