#pragma once

#include <cstdint>
#include <variant>

#include "stretto/collective/protocol/policy.h"
#include "stretto/collective/server/server_options.h"

namespace stretto {

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

/// When the ranks of an algorithm wait for one another: what is left of a recipe where nothing is computed and nothing
/// is sent. Plain data, which a recipe fills in (RecipeInfo::shape) and simulate_shape() reads. So a setting is tried
/// in a millionth of the time that its run takes, and many can be.
struct AlgorithmShape {
  std::uint64_t every = 1;                                            ///< H: own steps of a rank between two exchanges
  std::variant<RoundShape, GroupRoundShape, ServerOptions> exchange;  ///< what it waits for there
};

}  // namespace stretto
