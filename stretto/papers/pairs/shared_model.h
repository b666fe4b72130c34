#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/collective/rounds/contribution.h"
#include "stretto/kernel/bucket.h"

namespace stretto {

/// A model that the application moves by its own steps while the thread that drives the engine mixes it with those of
/// other ranks. Every call is one access to one bucket, and atomic with regard to all others: each adds to what the
/// bucket holds at that moment, so no access loses another's. Thread-safe.
///
/// One mutex, held for one pass over a bucket: a few milliseconds for the largest. Whoever holds it waits for nothing
/// meanwhile, so an engine answers within that time whatever its application computes. Sets swapped by compare-and-swap
/// would take a copy of the bucket for each access, and a second pass for each that fails.
class SharedModel {
 public:
  /// All zero at first.
  explicit SharedModel(const std::vector<BucketSpec>& buckets);

  /// The bucket becomes `value`, and the application's next step starts from there.
  void begin(int bucket, std::span<const std::byte> value);
  /// Copies the bucket.
  void read(int bucket, std::span<std::byte> to);
  /// The application's own step, which started from what begin() or the last add_own() left, has come to `moved`: adds
  /// how far. `moved` becomes what the bucket holds then, and the next step starts from there. Where no other rank has
  /// changed the bucket, the bits are those of the step. Returns how many times others have changed it in between. Of
  /// the application's thread alone, as begin().
  std::uint64_t add_own(int bucket, std::span<std::byte> moved);
  /// mix() with another rank's model (kernel/mix.h): `theirs` becomes what that rank must subtract.
  void mix_with(int bucket, std::span<std::byte> theirs, double weight, double back);
  /// Subtracts the answer of another rank.
  void subtract(int bucket, std::span<const std::byte> change);

  std::uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  std::span<std::byte> model(int bucket) REQUIRES(mutex_) { return model_.bucket(bucket); }

  const std::vector<BucketSpec> buckets_;
  std::uint64_t memory_bytes_ = 0;
  Contribution base_;                   // what the application's step starts from; its thread alone
  std::vector<std::uint64_t> read_at_;  // changes_ when that was read; the same
  Mutex mutex_;
  Contribution model_ GUARDED_BY(mutex_);
  std::vector<std::uint64_t> changes_ GUARDED_BY(mutex_);  // by bucket: how often others have changed it
};

}  // namespace stretto
