#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/kernel/bucket.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// Counts of a loop of the user's own, over all ranks: numbers that each deposit brings along and a round adds up, so
/// that every rank hears them at the same round. By them calls of schedulers are counted.
using LoopCounts = std::array<std::int64_t, 8>;

/// The notes that rounds of a loop of the user's own carry beside the gradients: for which parameters some rank had a
/// gradient, whether all ranks move the same weights by the same options, and what the loops count. A bucket more, of
/// integers, of which the sum over the ranks says all of that exactly: five numbers a rank, one a parameter, then the
/// counts.
///
/// A rank's options are compared by a hash of all it has applied rounds with so far; those of a rank that is some
/// rounds behind with what this rank had then. So a rate that follows from the rounds applied is no difference, and
/// one that follows from a rank's own steps is. Weights are compared likewise, by a hash of those with which some
/// rounds begin: something else than rounds that moves them on each rank by itself is told within the first.
class RoundNotes {
 public:
  /// Of one rank; `num_parameters`: Replica::num_trained(); `max_lag`: RecipeOptions::max_lag. Where members of the job
  /// change: of one place among as many as there may be members, so that deposits fit into every world. Of two members
  /// at one place nothing is compared.
  RoundNotes(int rank, int ranks, int num_parameters, int max_lag);

  BucketSpec bucket() const;  ///< the numbers of a deposit, and of a round's sum
  /// Writes what goes with a deposit that is computed on the weights after `base` rounds.
  void write(std::span<std::int64_t> numbers, const Replica& replica, std::uint64_t base,
             const LoopCounts& counts = {}) const;

  /// Of each parameter how many deposits of a round's sum had a gradient for it.
  std::span<const std::int64_t> uses(std::span<const std::int64_t> sum) const;
  /// The counts of the loops, summed over a round's deposits.
  LoopCounts counts(std::span<const std::int64_t> sum) const;
  /// Where each bucket has rounds of its own, and notes in them: the uses of parameters of `bucket` in `sum` become
  /// those in its own, of which nothing is the sum where nobody contributed.
  void take_uses(std::span<std::int64_t> sum, const Replica& replica, int bucket,
                 std::span<const std::int64_t> own) const;
  /// "rank 2 has lr 0.025 where rank 0 has 0.05 at round 40", where a rank that brought something differs.
  std::optional<std::string> difference(std::span<const std::int64_t> sum) const;
  /// The weights are about to be moved in `round` by these options; nothing: the round is empty. In order. `weights`:
  /// their hash, where compares() asks for it.
  void applies(std::uint64_t round, const std::optional<OptimizerOptions>& options,
               std::optional<std::uint64_t> weights = std::nullopt);
  /// All that this rank has applied rounds with, the same on every rank that has applied as many: for one that goes on
  /// from there.
  std::string history() const;
  /// Goes on from there.
  void take_history(std::string_view history);
  /// Whether the weights with which a round begins are compared: 1, 2, 4, … 64, and then one round in 64.
  static bool compares(std::uint64_t round);

 private:
  struct History {
    std::uint64_t hash = 0;     // of all options so far
    double lr = 0;              // of the last
    std::uint64_t weights = 0;  // hash of those that were compared last
    std::uint64_t round = 0;    // which they began
  };
  History& after(std::uint64_t rounds) { return history_[rounds % history_.size()]; }
  const History& after(std::uint64_t rounds) const { return history_[rounds % history_.size()]; }

  const int rank_;
  const std::size_t ranks_;
  const std::size_t num_parameters_;
  std::vector<History> history_;  // by rounds applied, modulo as many as a deposit can be behind
};

}  // namespace stretto
