#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/rank_set.h"

namespace stretto {

/// How one rank spent the time up to its contribution, by its own clock, in seconds.
struct RankTimes {
  std::uint16_t rank = 0;     ///< whose
  std::uint16_t batches = 0;  ///< in the contribution, where members change: what each has brought is added up; else 0
  float computed = 0;         ///< in the batches of the contribution
  float waited = 0;           ///< at the round before
  float late = 0;             ///< after the round it arrived at had been joined without it; 0 if it was in time
  friend bool operator==(const RankTimes&, const RankTimes&) = default;  ///< all fields are equal
};

/// A round's account of itself: reduced with the data, equal on every rank once the round is complete. A rank is in at
/// most one of fresh and stale; if it is in neither, its contribution was null (docs/glossary.md).
///
/// With many ranks messages carry the compact form: counts, sums, the oldest base and the ranks that have drained, on
/// which the policies depend; but neither who brought something nor for how long each waited. Where forms meet the
/// sets name some ranks and `unnamed` counts the others. Where members change the names stay, and the times alone go.
struct RoundHeader {
  /// As oldest_base: there is no batch.
  static constexpr std::uint64_t kNoBase = ~std::uint64_t{0};
  /// Messages of larger jobs carry the compact form, or the names without times.
  static constexpr int kMaxNamedRanks = 256;
  /// The detail in which messages speak of ranks.
  enum class Names : std::uint8_t {
    none,     ///< nothing: the compact form
    batches,  ///< who brought what, and how many batches
    times,    ///< all there is
  };

  /// How many ranks there are beyond those that a set names.
  struct Unnamed {
    std::uint32_t arrived = 0;                                         ///< beyond RoundHeader::arrived
    std::uint32_t fresh = 0;                                           ///< beyond RoundHeader::fresh
    std::uint32_t stale = 0;                                           ///< beyond RoundHeader::stale
    friend bool operator==(const Unnamed&, const Unnamed&) = default;  ///< all fields are equal
  };

  RankSet arrived;                      ///< its application waited at the round when its engine joined
  RankSet fresh;                        ///< all its batches were computed on the weights before this round
  RankSet stale;                        ///< its oldest batch is older
  RankSet drained;                      ///< will bring no further batches
  std::uint64_t batches = 0;            ///< in the sum
  std::uint64_t samples = 0;            ///< in these batches
  std::uint64_t oldest_base = kNoBase;  ///< smallest number of rounds in the weights a batch was computed on
  std::uint64_t sum_of_bases = 0;       ///< over the batches
  std::vector<RankTimes> times;         ///< ascending by rank; of named ranks that brought something
  Unnamed unnamed;                      ///< the ranks that the sets leave out

  RoundHeader() = default;  ///< of a job without ranks
  /// "Nothing from nobody" for a job of `ranks`.
  explicit RoundHeader(int ranks) : arrived(ranks), fresh(ranks), stale(ranks), drained(ranks) {}

  int ranks() const { return arrived.size(); }  ///< of the job
  /// Whether the sets are complete, and `times` with them.
  bool names_ranks() const { return unnamed == Unnamed{}; }
  /// Ranks that had arrived, named or not; likewise the next two.
  int num_arrived() const { return arrived.count() + static_cast<int>(unnamed.arrived); }
  int num_fresh() const { return fresh.count() + static_cast<int>(unnamed.fresh); }  ///< fresh contributions
  int num_stale() const { return stale.count() + static_cast<int>(unnamed.stale); }  ///< stale contributions
  int contributors() const { return num_fresh() + num_stale(); }                     ///< ranks that brought something
  bool empty() const { return contributors() == 0; }                                 ///< nobody brought anything
  /// Staleness of the oldest batch in round `round`, in rounds. 0 where there is none.
  std::uint64_t max_staleness(std::uint64_t round) const { return batches == 0 ? 0 : round - oldest_base; }
  /// The sum of the staleness of all batches in round `round`, in rounds.
  std::uint64_t total_staleness(std::uint64_t round) const { return round * batches - sum_of_bases; }

  /// Resets to "nothing from nobody" for a job of `ranks`, keeping memory.
  void reset(int ranks);
  /// Adds the entries of `other`. Requires: the same number of ranks, disjoint contributors.
  void merge(const RoundHeader& other);
  /// Makes it the compact form of itself.
  void forget_names();
  /// Leaves out what these names do not say.
  void forget_all_but(Names names);
  friend bool operator==(const RoundHeader&, const RoundHeader&) = default;  ///< all fields are equal

  /// Bytes on the wire: a word that says what there is, 4 counters, the ranks without a name in 2 words, the sets that
  /// are not empty at a bit a rank, then 16 bytes for each of `times`; 4 in a job of more than kMaxNamedRanks ranks
  /// where none of them has a time.
  std::size_t wire_bytes() const;
  /// At most, in a job of `ranks`.
  static std::size_t max_wire_bytes(int ranks, Names names);
  /// Writes exactly wire_bytes() bytes to `out`.
  void write(std::byte* out) const;
  /// Reads what write() wrote, for a job of `ranks`; false, and nothing changed, if `in` is malformed.
  [[nodiscard]] bool read(std::span<const std::byte> in, int ranks);

 private:
  std::uint64_t what_there_is() const;  // the first word on the wire
};

/// The facts of a contribution beside its numbers.
struct ContributionFacts {
  std::uint64_t batches = 0;                         ///< added up in it
  std::uint64_t samples = 0;                         ///< in these batches
  std::uint64_t oldest_base = RoundHeader::kNoBase;  ///< smallest number of rounds in the weights of a batch
  std::uint64_t sum_of_bases = 0;                    ///< over the batches
  RankTimes times;                                   ///< of the rank; its number is entered with the round

  /// The facts of two deposits that have been added up.
  friend ContributionFacts operator+(const ContributionFacts& a, const ContributionFacts& b);
};

/// \cond inner
/// Enters the contribution of `rank` to `round` into a header that has none of this rank. `counts`: its batches and
/// times, too; of a model that stands they count in one round only.
void enter(RoundHeader& header, std::uint64_t round, int rank, const ContributionFacts& facts, bool counts = true);
/// \endcond

}  // namespace stretto
