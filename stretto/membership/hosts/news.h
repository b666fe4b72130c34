#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {

/// The knowledge of one host's ranks about those of all hosts, in memory that they share: which have left, and which
/// are lost. One rank of the host, its speaker, writes it; another, its deputy, where that one has ended or stands
/// still. Any thread.
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

  /// Changes as long as the speaker runs.
  std::atomic<std::uint64_t>& beat() { return header().beat; }

 private:
  struct Header {
    std::atomic<std::uint64_t> beat;
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
