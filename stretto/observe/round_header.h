#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/rank_set.h"

namespace stretto {

/// How one rank spent the time up to its contribution, by its own clock, in seconds.
struct RankTimes {
  std::uint32_t rank = 0;
  float computed = 0;
  float waited = 0;
  float late = 0;  ///< after the round it arrived at had been joined without it; 0 if it was in time
  friend bool operator==(const RankTimes&, const RankTimes&) = default;
};

/// What a round says about itself: reduced with the data, equal on every rank once the round is complete.
/// A rank appears in at most one of fresh and stale; in neither, its contribution was null.
struct RoundHeader {
  static constexpr std::uint64_t kNoBase = ~std::uint64_t{0};

  RankSet arrived;  ///< its application waited at the round when its engine joined
  RankSet fresh;    ///< all its batches were computed on the weights before this round
  RankSet stale;    ///< its oldest batch is older
  RankSet drained;  ///< will bring no further batches
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;
  std::uint64_t oldest_base = kNoBase;  ///< smallest number of rounds in the weights a batch was computed on
  std::uint64_t sum_of_bases = 0;       ///< over the batches
  std::vector<RankTimes> times;         ///< ascending by rank; of ranks that brought something

  RoundHeader() = default;
  explicit RoundHeader(int ranks) : arrived(ranks), fresh(ranks), stale(ranks), drained(ranks) {}

  int ranks() const { return arrived.size(); }
  int contributors() const { return fresh.count() + stale.count(); }
  bool empty() const { return contributors() == 0; }
  /// Staleness of the oldest batch, and the sum over all batches, in round `round`. 0 where there is none.
  std::uint64_t max_staleness(std::uint64_t round) const { return batches == 0 ? 0 : round - oldest_base; }
  std::uint64_t total_staleness(std::uint64_t round) const { return round * batches - sum_of_bases; }

  /// Resets to "nothing from nobody" for a job of `ranks`, keeping memory.
  void reset(int ranks);
  /// Adds what `other` knows. Requires: the same number of ranks, disjoint contributors.
  void merge(const RoundHeader& other);
  friend bool operator==(const RoundHeader&, const RoundHeader&) = default;

  /// Bytes on the wire: 4 sets, 4 counters, then 16 bytes a rank that brought something.
  std::size_t wire_bytes() const;
  /// Writes exactly wire_bytes() bytes to `out`.
  void write(std::byte* out) const;
  /// Reads what write() wrote, for a job of `ranks`; false, and nothing changed, if `in` is malformed.
  [[nodiscard]] bool read(std::span<const std::byte> in, int ranks);
};

}  // namespace stretto
