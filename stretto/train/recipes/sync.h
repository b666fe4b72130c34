#pragma once

#include <optional>

#include "stretto/predict/shape/algorithm_shape.h"
#include "stretto/train/recipes/recipe.h"

namespace stretto {

Policy sync_policy(const std::string& argument, int ranks, int quorum);

/// Synchronous SGD (Allreduce-SGD): full × world, every step. With RecipeOptions::overlap each bucket of gradients is
/// handed over during the backward pass as soon as it and those before it are there. With an ordering it is tensors
/// (make_ordered_sync()).
std::unique_ptr<Recipe> make_sync(const RecipeContext& context);
/// RecipeInfo::check.
void check_sync(const RecipeOptions& options, int ranks);
/// RecipeInfo::shape.
std::optional<AlgorithmShape> sync_shape(const RecipeOptions& options, int ranks);

}  // namespace stretto
