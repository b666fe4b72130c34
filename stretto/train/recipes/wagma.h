#pragma once

#include <optional>

#include "stretto/predict/shape/algorithm_shape.h"
#include "stretto/train/recipes/recipe.h"

namespace stretto {

/// WAGMA-SGD: each rank moves its own weights, publishes them, and averages them with a group of ranks, another one in
/// each round, without waiting for members that still compute; every τ rounds with all ranks, whom it waits for (Li et
/// al., "Breaking (Global) Barriers in Parallel Stochastic Optimization with Wait-Avoiding Group Averaging", arXiv
/// 2005.00124, Algorithm 2). The argument is the group size S; options: tau, group-order, group-quorum, stale, publish,
/// late, group-sum.
///
/// The parameters are averaged; the optimizer's state and buffers, in full rounds, as StateAverage says. With τ = 1 it
/// is local SGD with one step.
std::unique_ptr<Recipe> make_wagma(const RecipeContext& context);
/// The same with what we recommend where nothing is said: a quorum of half of the ranks starts a round, models move
/// with the average of their group also while their rank computes, so that no step is lost, and a late rank goes on
/// with the open round.
std::unique_ptr<Recipe> make_wagma_quorum(const RecipeContext& context);

/// Policy::full(): what all ranks have in common follows from full rounds alone. Throws UsageError for an argument that
/// is no number.
Policy wagma_policy(const std::string& argument, int ranks, int quorum);
/// Throw UsageError for a group size from below 2 or beyond the ranks, and for a quorum beyond them.
void check_wagma(const RecipeOptions& options, int ranks);
void check_wagma_quorum(const RecipeOptions& options, int ranks);  ///< as check_wagma()
/// RecipeInfo::shape.
std::optional<AlgorithmShape> wagma_shape(const RecipeOptions& options, int ranks);
std::optional<AlgorithmShape> wagma_quorum_shape(const RecipeOptions& options, int ranks);  ///< as wagma_shape()

}  // namespace stretto
