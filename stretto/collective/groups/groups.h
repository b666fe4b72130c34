#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stretto/transport/transport.h"

namespace stretto {

enum class GroupOrder : std::uint8_t {
  dynamic,  ///< others in each round, so that what one rank has learnt reaches all ranks in a few rounds
  fixed,    ///< those of round 0 for ever: groups never hear of each other. For comparison
};

/// Which ranks average with each other in which round: a function of the number of ranks P, the group size S and the
/// round alone, so that every rank knows every group of every round without a message. Fixed after construction.
///
/// Each round partitions the ranks into m = ⌈P/S⌉ groups whose sizes differ by at most one; none is larger than S.
/// After L = ⌈log_S P⌉ rounds, a *cycle*, a rank's value can have reached all ranks; mixing_number() says after how
/// many it has, for every rank. The first of these rules that fits says who is together in round r (docs/algorithms.md,
/// Groups):
/// 1. S = P: all ranks.
/// 2. P and S are powers of two: the ranks that differ in the log2 S bits (r·log2 S + i) mod log2 P, i < log2 S, alone.
///    (Li et al., "Breaking (Global) Barriers in Parallel Stochastic Optimization with Wait-Avoiding Group Averaging",
///    arXiv 2005.00124, Algorithm 1, with its mask made anew in each phase, mask = 1 << shift. As printed the mask is
///    shifted further each time, which contradicts the example in the paper's text.)
/// 3. P = S^L: the ranks that differ in digit r mod L, to the base S, alone.
/// 4. m ≤ S, that is S ≥ √P: with x = (rank + ⌊r/L⌋) mod P those of equal ⌊x·m/P⌋ in even rounds, of equal x mod m in
///    odd ones: blocks and residues by turns.
/// 5. Otherwise, with a = S^(r mod L), raised until it has no divisor in common with P: of the sequence
///    a·((j + ⌊r/L⌋·⌊S/2⌋) mod P) mod P, j = 0 … P − 1, the ranks between ⌊P·i/m⌋ and ⌊P·(i + 1)/m⌋.
class Groups {
 public:
  /// Throws UsageError unless 2 ≤ group_size ≤ ranks (for one rank: 1).
  Groups(int ranks, int group_size, GroupOrder order = GroupOrder::dynamic);

  int ranks() const { return ranks_; }            ///< P
  int group_size() const { return group_size_; }  ///< S: no group is larger
  GroupOrder order() const { return order_; }
  int count() const { return count_; }  ///< m: groups of a round
  int cycle() const { return cycle_; }  ///< L: no rule mixes in fewer rounds
  /// The groups of round r + period() are those of round r. (They may be so after fewer rounds already.)
  Round period() const;

  /// The number of each rank's group in this round. Groups are numbered in the order of their lowest ranks. O(P).
  std::vector<int> numbers(Round round) const;
  /// The ranks of this rank's group, ascending, itself among them. O(P). Requires: 0 ≤ rank < ranks().
  std::vector<int> members(int rank, Round round) const;
  /// All groups of the round, each ascending, in the order of their lowest ranks. O(P).
  std::vector<std::vector<int>> all(Round round) const;

 private:
  enum class Rule : std::uint8_t { one, bits, digits, blocks_and_residues, strides };

  static Rule rule_for(int ranks, int group_size);
  void number_by_bits(Round round, std::vector<int>& group) const;
  void number_by_digits(Round round, std::vector<int>& group) const;
  void number_by_blocks_or_residues(Round round, std::vector<int>& group) const;
  void number_by_strides(Round round, std::vector<int>& group) const;

  int ranks_;
  int group_size_;
  GroupOrder order_;
  int count_ = 1;
  int cycle_ = 1;
  Rule rule_ = Rule::one;
};

/// A group size with which values reach all ranks in two rounds, or three: the smallest divisor of P from √P to 2√P, so
/// that all groups are equally large; ⌈√P⌉ where there is none. Throws UsageError unless ranks ≥ 1.
int default_group_size(int ranks);

/// The mixing number M: after how many rounds what each rank had before the first of them has reached every rank, at
/// worst over the round that is the first. At least Groups::cycle() (0 for one rank). None where it never has, as with
/// fixed groups.
///
/// For all 2,016 pairs 2 ≤ S ≤ P ≤ 64, with L the cycle: M = L in 1,786, L + 1 in 162, L + 2 in 27, and more in 41, all
/// of which have S = 2 and P no power of two. Of the 1,771 with S ≥ √P: L in 1,743, L + 1 in 27, and 5 for P = 3, S
/// = 2.
///
/// Takes period · M · P²/64 steps, milliseconds up to 64 ranks.
std::optional<int> mixing_number(const Groups& groups);

/// How far the ranks are from their mean after 0, 1, … `rounds` rounds in which each takes the mean of its group and
/// does nothing else. One rank begins at 1 and all others at 0, as when one of them has made a step by itself. The
/// distance is the root mean square over the ranks of value − mean of all values, as a share of what it was at first;
/// the largest over the rank that begins at 1, and over the round that is the first.
///
/// It never grows. After M rounds it is 0, up to rounding, if P = S^L, if P and S are powers of two, or if S ≥ √P and
/// m² divides P. Takes period · `rounds` · P² steps. Requires: rounds ≥ 0.
std::vector<double> consensus_distances(const Groups& groups, int rounds);

}  // namespace stretto
