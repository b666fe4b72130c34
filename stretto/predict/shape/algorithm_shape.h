#pragma once

#include <cstdint>
#include <functional>
#include <variant>

#include "stretto/collective/protocol/policy.h"

namespace stretto {

struct Applied;   // predict/shape/rank_steps.h
class RankSteps;  // likewise
struct ShapeJob;  // predict/shape/shape_simulation.h

/// Rounds that take deposits: of all ranks, or of those that have come (docs/protocol.md).
struct RoundShape {
  Policy policy;                 ///< who may start one
  int max_lag = 4;               ///< W: rounds by which a rank may be behind
  std::uint64_t full_every = 0;  ///< batches of all ranks between two full ones; 0: none is full by that
};

/// Rounds in groups, for which a late rank is not waited (docs/groups.md).
struct GroupRoundShape {
  std::uint64_t full_every = 10;  ///< τ: each so many-th round is full
  int quorum = 0;                 ///< ranks that start a round when they have come; 0: the first does
  bool late_ranks_jump = false;   ///< a late rank goes on with the open round; else it makes up for each
};

/// Gradients that ranks push in each step, to be answered with weights. Which are answered when is the algorithm's own.
struct PushShape {
  int workers = 0;  ///< the first of the ranks: these compute
  /// Lets them go through their steps.
  std::function<Applied(RankSteps& steps, const ShapeJob& job)> simulate;
};

/// When the ranks of an algorithm wait for one another: what is left of a recipe where nothing is computed and nothing
/// is sent. A recipe fills it in (RecipeInfo::shape) and simulate_shape() reads it. So a setting is tried in a
/// millionth of the time that its run takes, and many can be.
struct AlgorithmShape {
  std::uint64_t every = 1;                                        ///< H: own steps of a rank between two exchanges
  std::variant<RoundShape, GroupRoundShape, PushShape> exchange;  ///< what it waits for there
};

}  // namespace stretto
