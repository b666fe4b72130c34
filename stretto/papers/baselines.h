#pragma once

#include <span>

#include "stretto/check/job_search.h"
#include "stretto/train/recipes/recipes.h"

namespace stretto {

/// The algorithms of one folder, in an order in which they can be registered, and the searches of their collective.
struct Baselines {
  std::span<const RecipeInfo> recipes;
  std::span<const JobSearch> searches;
};

/// Each is empty where its folder is not built in.
Baselines neighbour_baselines();
Baselines pair_baselines();
Baselines server_baselines();

}  // namespace stretto
