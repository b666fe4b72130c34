#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stretto/collective/groups/groups.h"
#include "stretto/collective/rounds/contribution.h"
#include "stretto/kernel/mix.h"
#include "stretto/observe/round_header.h"

namespace stretto {

/// How a rank uses a sum of its older model X, where it computed meanwhile and its newest, W', is not in the sum.
enum class StaleRule : std::uint8_t {
  mix,    ///< (sum + W') / (members + 1), as in the paper: keeps 1/(members + 1) of what it has done since X
  carry,  ///< sum / members + (W' − X): keeps all that it has done, and not what X has taken from the others
  moves,  ///< GroupOptions::moves: X becomes sum / members at once, and its step is put on that: keeps all of all ranks
};

/// The change of a rank's model W' by a result of a GroupAllreduce.
enum class ModelMove : std::uint8_t {
  average,  ///< sum / members
  mix,      ///< (sum + W') / (members + 1)
  carry,    ///< sum / members + (W' − X)
};

/// The move for a result. `fresh`: W' is in the sum, as always under StaleRule::moves. `drained`: the rank has no W' of
/// its own any more.
constexpr ModelMove model_move(bool fresh, bool drained, StaleRule rule) {
  if (fresh || drained) return ModelMove::average;
  return rule == StaleRule::mix ? ModelMove::mix : ModelMove::carry;
}

/// How a late rank deals with the rounds it has missed.
enum class LateRank : std::uint8_t {
  catches_up,  ///< it makes an iteration for each of them, without waiting (the paper): as many as every other rank
  jumps,       ///< it goes on with the open round: fewer iterations than the others
};

/// Which sum a rank uses that comes to its round late.
enum class LateSum : std::uint8_t {
  newest,  ///< the newest there is: of the most recent models, and three sums are enough
  own,     ///< that of its own iteration, at the cost of τ + 1 sums: for comparison
};

/// Options of a GroupAllreduce, the same on every rank.
struct GroupOptions {
  int group_size = 0;                      ///< S, from 2 to P; 0: default_group_size()
  GroupOrder order = GroupOrder::dynamic;  ///< which ranks are together
  Round full_every = 10;                   ///< τ: every so many rounds one is full and waits for all, from 1
  int quorum = 0;                          ///< ranks that must have come before a group round starts; 0: the first one
  LateRank late = LateRank::catches_up;    ///< whether every rank makes every iteration
  bool keep_own = false;               ///< GroupResult::own is there, at the cost of a model more for each unread sum
  LateSum late_sum = LateSum::newest;  ///< what a late rank averages with; `own` goes by messages
  /// Where it is given, with what it computes: the mean of a round becomes the model that stands on each member, also
  /// on those that compute, and a rank publishes what stands and its own step. Nothing of any step is lost (G11).
  /// Outlives the collective. Not with `keep_own` or LateSum::own.
  const ModelMath* moves = nullptr;
  /// Ranks that meet at one board. 0: all of them, where they share memory, else none; 1: none, by messages; in between
  /// messages go between the boards, as between hosts.
  int seats = 0;
  std::uint64_t piece_bytes = 128 << 10;  ///< on a board: what one rank sums at a time; a multiple of 64
};

/// The sum of a round over a group, as the application sees it; valid inside the apply function only.
struct GroupResult {
  Round round = 0;    ///< its number, from 0; the same on every rank
  bool full = false;  ///< the group is all ranks, and each has waited: all models in it are fresh
  /// Of the members alone. Of a full round: of all ranks; its bases say how old each rank's models were in the group
  /// rounds since the last full one, as if each batch had been as old as they were on average. With GroupOptions::moves
  /// that of a full round only, else null.
  const RoundHeader* header = nullptr;
  int members = 0;  ///< the divisor of the sum; 1 with GroupOptions::moves, where it is the model that stands
  /// The newest model of this rank is the one in the sum. Otherwise the sum has an older one.
  bool fresh = false;
  std::span<const std::span<const std::byte>> sum;  ///< of each bucket
  const Contribution* own = nullptr;  ///< with GroupOptions::keep_own: this rank's model in the sum; else null
};

}  // namespace stretto
