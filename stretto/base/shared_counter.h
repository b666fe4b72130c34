#pragma once

#include <atomic>
#include <cstdint>

namespace stretto {

/// A number that all ranks of a job count up together. Thread-safe.
class SharedCounter {
 public:
  virtual ~SharedCounter() = default;
  /// Adds `amount` and returns the value before.
  virtual std::uint64_t fetch_add(std::uint64_t amount) = 0;
};

/// A counter in memory that all ranks share (the job's page, or one process that simulates them).
class MemoryCounter final : public SharedCounter {
 public:
  /// `word` must outlive it.
  explicit MemoryCounter(std::atomic<std::uint64_t>& word) : word_(word) {}
  std::uint64_t fetch_add(std::uint64_t amount) override { return word_.fetch_add(amount, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t>& word_;
};

}  // namespace stretto
