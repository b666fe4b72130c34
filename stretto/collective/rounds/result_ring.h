#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/collective/protocol/policy.h"
#include "stretto/engine/blocks.h"
#include "stretto/engine/engine.h"
#include "stretto/kernel/bucket.h"
#include "stretto/observe/round_header.h"

namespace stretto {

/// One result: memory for every bucket, the round's header, and which buckets hold something.
struct ResultSlot {
  Round round = 0;
  Policy policy;
  RoundHeader header;
  std::vector<Block> memory;
  std::vector<std::uint64_t> bytes;
  std::vector<std::span<const std::byte>> buckets;  // as handed to the application
  std::vector<const RoundHeader*> headers;          // of each bucket, where buckets have rounds of their own; else none

  ResultSlot() = default;  ///< without memory of its own
  explicit ResultSlot(std::span<const BucketSpec> specs);
  /// Shows the application the buckets that are `present`.
  void show(std::size_t bucket, bool present);
  /// Takes over another slot's content.
  void copy_from(const ResultSlot& other);
};

/// The last N results, W or more. Round r is summed and kept in slot r mod N; the bound on the lag (s < h + W) means
/// that the application has released the result that lay there before, so a slot is never overwritten unread
/// (docs/protocol.md, I7).
class ResultRing {
 public:
  ResultRing(std::span<const BucketSpec> specs, int results);

  ResultSlot& slot(Round round) { return slots_[round % slots_.size()]; }
  const RoundHeader& header_of(Round round) const { return slots_[round % slots_.size()].header; }

 private:
  std::vector<ResultSlot> slots_;
};

/// For delivery latest: the newest result, and the headers of those that it has replaced. The driver thread writes, the
/// application thread reads.
class LatestResult {
 public:
  explicit LatestResult(std::span<const BucketSpec> specs) : newest_(specs), reading_(specs) {}

  void publish(const ResultSlot& slot);
  /// The newest result; valid until the next call. One application thread.
  const ResultSlot& read();
  /// Rounds between the newest result and the one before it that was read; valid until the next read(). One application
  /// thread.
  std::span<const PassedRound> passed() const { return read_passed_; }

 private:
  Mutex mutex_;
  ResultSlot newest_ GUARDED_BY(mutex_);
  bool fresh_ GUARDED_BY(mutex_) = false;
  std::vector<PassedRound> passed_ GUARDED_BY(mutex_);  // since the last read, without the newest

  // Owned by the application thread.
  ResultSlot reading_;
  std::vector<PassedRound> read_passed_;
};

}  // namespace stretto
