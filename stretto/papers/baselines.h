#pragma once

#include <span>

#include "stretto/check/harness/job_search.h"
#include "stretto/ordering/negotiation/cycle_fix.h"
#include "stretto/train/recipes/recipes.h"

namespace stretto {

/// The parts that a folder adds: algorithms, in an order in which they can be registered, searches, fixes of the
/// coordinator.
struct Baselines {
  std::span<const RecipeInfo> recipes;
  std::span<const JobSearch> searches;
  std::span<const CycleFix> cycle_fixes;
};

/// Each is empty where its folder is not built in.
Baselines neighbour_baselines();
Baselines ordering_baselines();
Baselines pair_baselines();
Baselines server_baselines();

}  // namespace stretto
