#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/collective/policy.h"
#include "stretto/engine/blocks.h"
#include "stretto/engine/engine.h"
#include "stretto/kernel/bucket.h"
#include "stretto/observe/round_header.h"

namespace stretto {

/// One result: memory for every bucket, what the round said about itself, and which buckets hold something.
struct ResultSlot {
  Round round = 0;
  Policy policy;
  RoundHeader header;
  std::vector<Block> memory;
  std::vector<std::uint64_t> bytes;
  std::vector<std::span<const std::byte>> buckets;  // as handed to the application

  ResultSlot() = default;  ///< without memory of its own
  explicit ResultSlot(std::span<const BucketSpec> specs);
  /// Shows the application the buckets that are `present`.
  void show(std::size_t bucket, bool present);
  /// Takes over another slot's content.
  void copy_from(const ResultSlot& other);
};

/// The last W results. Round r is summed and kept in slot r mod W; the bound on the lag (s < h + W) means that the
/// application has released what lay there before, so that a slot is never overwritten unread (invariant I7).
class ResultRing {
 public:
  ResultRing(std::span<const BucketSpec> specs, int max_lag);

  ResultSlot& slot(Round round) { return slots_[round % slots_.size()]; }

 private:
  std::vector<ResultSlot> slots_;
};

/// Only the newest result, for delivery latest: written by the engine, read by the application.
class LatestResult {
 public:
  explicit LatestResult(std::span<const BucketSpec> specs) : newest_(specs), reading_(specs) {}

  void publish(const ResultSlot& slot);
  /// The newest result; valid until the next call. One application thread.
  const ResultSlot& read();

 private:
  Mutex mutex_;
  ResultSlot newest_ GUARDED_BY(mutex_);
  bool fresh_ GUARDED_BY(mutex_) = false;
  ResultSlot reading_;  // owned by the application thread
};

}  // namespace stretto
