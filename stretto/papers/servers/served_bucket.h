#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "stretto/kernel/bucket.h"
#include "stretto/papers/servers/shard.h"

namespace stretto {

/// Moves the value of a bucket by the sum of `pushes` gradients: `to` becomes what follows `from`. All three have the
/// length of the bucket; `to` may be `from`, and `sum` may be overwritten. Of a version without a gradient, all of
/// whose steps were passed, `sum` is empty and `pushes` 0. Called on the thread that steps the engine.
using ServerUpdate = std::function<void(int bucket, std::span<std::byte> to, std::span<const std::byte> from,
                                        std::span<std::byte> sum, int pushes)>;

/// The services that a served bucket asks of the collective it belongs to.
class ServedBucketHost {
 public:
  virtual ~ServedBucketHost() = default;
  /// Sends `value` to `rank`, which stays until ServedBucket::unpin(pin).
  virtual void answer(int bucket, const ShardAction& action, std::span<const std::byte> value, int pin) = 0;
  /// The gradient of `rank` is not used any more: the value that became version `into` contains it; none: dropped.
  virtual void release(int bucket, int rank, std::optional<Version> into) = 0;
  /// Passes a decision on to all shards that follow this one.
  virtual void commit(const ShardAction& action) = 0;
};

/// One bucket on the rank that serves it: the Shard, the value, and the gradients it has been pushed. The value is
/// never written while it is being sent: then the next version goes to other memory. One thread.
class ServedBucket {
 public:
  /// `host` and `update` must outlive it.
  ServedBucket(int bucket, BucketSpec spec, int ranks, Shard shard, ServedBucketHost& host, const ServerUpdate& update);

  /// Version 0 is `value`, which is copied.
  void start(std::span<const std::byte> value);

  /// To tell it of requests; act() follows each.
  Shard& shard() { return shard_; }
  const Shard& shard() const { return shard_; }
  /// Where the gradient of `rank` lies until the host is told of its release. Null: a payload without bytes. `there`:
  /// false for a step that was passed, of which there is none.
  void gradient(int rank, std::byte* data, bool there = true) {
    gradients_[static_cast<std::size_t>(rank)] = {data, there};
  }
  /// Carries out what the shard wants done.
  void act();
  /// An answer has left.
  void unpin(int pin) { --values_[static_cast<std::size_t>(pin)].pins; }

  int bucket() const { return bucket_; }
  /// Memory held.
  std::uint64_t bytes() const { return values_.size() * num_bytes(); }

 private:
  struct Value {
    std::vector<std::byte> memory;
    int pins = 0;  // answers that are being sent from it
  };
  struct Gradient {
    std::byte* data = nullptr;
    bool there = false;
  };
  std::uint64_t num_bytes() const { return spec_.count * size_of(spec_.type); }
  void apply(const ShardAction& action);
  std::size_t writable();

  const int bucket_;
  const BucketSpec spec_;
  Shard shard_;
  ServedBucketHost& host_;
  const ServerUpdate& update_;
  std::vector<Value> values_;
  std::size_t current_ = 0;          // of values_
  std::vector<Gradient> gradients_;  // by rank
};

}  // namespace stretto
