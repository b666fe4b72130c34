#pragma once

#include <optional>

#include "stretto/predict/shape/algorithm_shape.h"
#include "stretto/train/recipes/recipe.h"

namespace stretto {

Policy solo_policy(const std::string& argument, int ranks, int quorum);
Policy majority_policy(const std::string& argument, int ranks, int quorum);
/// "4": 4 ranks.
Policy quorum_policy(const std::string& argument, int ranks, int quorum);
/// "4,20ms": all ranks, or 4 of them once 20 ms have passed since the first; "4,adaptive".
Policy deadline_policy(const std::string& argument, int ranks, int quorum);

/// Eager-SGD (Li et al., PPoPP 2020, Algorithm 2): gradients, partial × world, every step, under RecipeOptions::policy.
/// A late rank's gradients go into a later round, and it does not wait for that one.
///
/// Delivery every: each rank applies every round in order, so the replicas never part. Delivery latest is the paper's:
/// rounds a late rank has missed are lost to it, so the replicas part, and full rounds (RecipeOptions::full_every)
/// and the end average the models over all ranks; the optimizer's state stays local.
///
/// With `rounds` per-bucket each bucket of gradients has rounds of its own (PartialOptions::buckets_per_round), one a
/// step, as in the paper, whose framework reduces tensor by tensor. Round r of all buckets moves the weights together.
/// In a loop of one's own they are handed over one after the other in its step, each with its notes.
std::unique_ptr<Recipe> make_eager(const RecipeContext& context);
/// RecipeInfo::check.
void check_eager(const RecipeOptions& options, int ranks);
/// RecipeInfo::shape. None where each bucket has rounds of its own.
std::optional<AlgorithmShape> eager_shape(const RecipeOptions& options, int ranks);

}  // namespace stretto
