#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/engine/blocks.h"
#include "stretto/kernel/bucket.h"
#include "stretto/observe/round_header.h"

namespace stretto {

/// The facts of a deposit beside its buffers.
struct DepositInfo {
  /// Added up in it, from 1. Under policy full also 0, from a rank that brings what it has without a batch of its own.
  std::uint64_t batches = 1;
  std::uint64_t samples = 1;  ///< in these batches
  Duration computed{0};       ///< time the rank computed for it, for the round's header
  Duration waited{0};         ///< time the rank waited at the round before it, for the round's header

  /// Counts both.
  void add(const DepositInfo& more) {
    batches += more.batches;
    samples += more.samples;
    computed += more.computed;
    waited += more.waited;
  }
};

/// One rank's share of a step, or several added up: memory for every bucket, and its facts. Obtained from
/// PartialAllreduce::acquire(), filled, and given back with deposit().
class Contribution {
 public:
  /// Allocates memory for `buckets`. `index` is its number among its siblings.
  Contribution(std::span<const BucketSpec> buckets, int index);
  /// Bytes of memory for `buckets`, of which each begins with a cache line.
  static std::uint64_t bytes_needed(std::span<const BucketSpec> buckets);
  /// In `memory`, which it does not own: bytes_needed() of it, aligned to a cache line.
  Contribution(std::span<std::byte> memory, std::span<const BucketSpec> buckets, int index);
  /// Over memory that it does not own.
  Contribution(std::vector<std::span<std::byte>> buckets, int index) : buckets_(std::move(buckets)), index_(index) {}

  /// Bucket i lies in `memory` from now on, which it does not own.
  void point_at(int i, std::span<std::byte> memory) { buckets_[static_cast<std::size_t>(i)] = memory; }

  /// The bytes of bucket i; writable by the application from acquire() to deposit().
  std::span<std::byte> bucket(int i) { return buckets_[static_cast<std::size_t>(i)]; }
  /// The same, to read.
  std::span<const std::byte> bucket(int i) const { return buckets_[static_cast<std::size_t>(i)]; }
  /// The elements of bucket i. Requires: T is what its BucketSpec::type says; that is not checked.
  template <class T>
  std::span<T> as(int i) {
    auto bytes = bucket(i);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  /// As many as the collective has.
  int num_buckets() const { return static_cast<int>(buckets_.size()); }
  /// Stable number of this set of buffers, 0 … sets−1: for views prepared once.
  int index() const { return index_; }

  /// Batches, samples, base and times. Owned by the application until it is deposited, then immutable.
  ContributionFacts facts;  ///< written by deposit()

  /// Buckets handed over so far, in order. The application's release store pairs with the engine's acquire load.
  std::atomic<int> ready{0};

 private:
  void lay_out(std::span<std::byte> memory, std::span<const BucketSpec> buckets);

  Block memory_;
  std::vector<std::span<std::byte>> buckets_;
  int index_;
};

/// The deposits that a rank takes from one world to the next: PartialAllreduce::take_out() copies them,
/// PartialAllreduce::put_in() makes them again.
struct Carried {
  /// One deposit, or several that were added up.
  struct Deposit {
    ContributionFacts facts;                      ///< its bases count the rounds of the job
    std::vector<std::vector<std::byte>> buckets;  ///< a copy of each
  };
  std::vector<Deposit> deposits;  ///< oldest first
};

}  // namespace stretto
