#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto {

/// The knowledge of one host's ranks about those of all hosts, in memory that they share: which have left, and which
/// are lost; and how far the host's clock is ahead. One rank of the host, its speaker, writes it; another, its deputy,
/// where that one has ended or stands still. Any thread.
class HostNews {
 public:
  static std::uint64_t bytes_needed(int ranks);  ///< for a job of so many ranks
  /// `memory`: of bytes_needed() bytes, 0 at the start, and the same for all ranks of the host.
  HostNews(std::span<std::byte> memory, int ranks);

  /// Leaves word that the rank `why.rank` is lost. Of a rank the first word counts.
  void lose(const Error& why);
  /// Leaves word that a rank has said goodbye.
  void leave(int rank) { entry(rank).left.store(true, std::memory_order_release); }
  bool has_left(int rank) const { return entry(rank).left.load(std::memory_order_acquire); }  ///< as leave() has said
  /// How many ranks are lost.
  std::uint32_t lost() const { return header().lost.load(std::memory_order_acquire); }
  /// The ranks that are lost, from the first on.
  std::vector<Error> all_lost() const;

  /// Leaves word how far this host's steady clock is ahead of that of rank 0's host.
  void set_clock_offset(Duration ahead) {
    header().clock_ahead.store(ahead.count(), std::memory_order_relaxed);
    header().knows_clock.store(true, std::memory_order_release);  // pairs with the load in clock_offset()
  }
  /// The last word of it; none: there is none yet.
  std::optional<Duration> clock_offset() const {
    if (!header().knows_clock.load(std::memory_order_acquire)) return std::nullopt;
    return Duration(header().clock_ahead.load(std::memory_order_relaxed));
  }

  /// Changes as long as the speaker runs.
  std::atomic<std::uint64_t>& beat() { return header().beat; }

 private:
  struct Header {
    std::atomic<std::uint64_t> beat;
    std::atomic<std::int64_t> clock_ahead;  // nanoseconds
    std::atomic<bool> knows_clock;
    std::atomic<std::uint32_t> lost;
  };
  struct Entry {
    std::atomic<bool> left;
    std::atomic<bool> taken;            // somebody writes the rest
    std::atomic<std::uint32_t> number;  // the rank is lost, after so many others and itself; 0: the rest is not there
    Errc code;
    std::array<char, 500> why;
  };

  Header& header() const { return *reinterpret_cast<Header*>(memory_.data()); }
  Entry& entry(int rank) const { return reinterpret_cast<Entry*>(memory_.data() + sizeof(Header))[rank]; }

  const std::span<std::byte> memory_;
  const int ranks_;
};

}  // namespace stretto
