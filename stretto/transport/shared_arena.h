#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "stretto/base/error.h"

namespace stretto {

/// Memory that all ranks of a host map, handed out region by region: each rank takes the same regions in the same
/// order, and gets the same bytes. Over memory handed in, which is zero at the start: a job's (ShmTransport) or, in a
/// simulation, anybody's. One object a rank; one thread at a time, but for ring() and disagreement().
class SharedArena {
 public:
  static constexpr int kMaxRegions = 4096;
  /// What the list of regions takes of the memory handed in.
  static std::uint64_t overhead();

  /// `ring` wakes a rank; any thread.
  /// `interleaved`: what meets here takes its steps one at a time, as a search wants.
  SharedArena(std::span<std::byte> memory, int rank, int ranks, std::function<void(int rank)> ring,
              bool interleaved = false);

  /// The next region: `bytes` zeros, aligned to pages. `shape` says in words what it is for. Where another rank has
  /// asked for something else, Errc::bad_input names both, here and through disagreement() on every rank.
  /// Errc::unavailable, on every rank, names the bytes needed where there are fewer. Either is final.
  Result<std::span<std::byte>> take(std::uint64_t bytes, const std::string& shape);

  /// What the ranks disagree about, if they do, and it is about one of the first `regions` regions.
  std::optional<Error> disagreement(int regions = kMaxRegions) const;
  /// Regions taken by this rank so far.
  int taken() const { return next_; }

  bool interleaved() const { return interleaved_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  void ring(int rank) const { ring_(rank); }
  void ring_others() const;

  struct Table;  // what lies at the beginning of the memory

 private:
  struct Region;

  bool wait_until_described(const Region& region) const;
  void disagree(const std::string& message);

  Table& table_;
  const std::span<std::byte> memory_;
  const int rank_;
  const int ranks_;
  const std::function<void(int)> ring_;
  const bool interleaved_;
  int next_ = 0;
  std::uint64_t used_;
  std::optional<Error> failed_;
};

}  // namespace stretto
