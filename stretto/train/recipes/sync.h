#pragma once

#include <memory>
#include <optional>

#include "stretto/predict/shape/algorithm_shape.h"
#include "stretto/train/recipes/options/ordering_choice.h"
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

/// Synchronous SGD whose gradients are reduced tensor by tensor, in an order on which the ranks agree or that is
/// planned (docs/ordering.md), and which may sum over the ranks while the model computes. The same bits as `sync`
/// without an order, whichever it is: sums are taken element by element in the fixed order (docs/protocol.md, Bits).
std::unique_ptr<Recipe> make_ordered_sync(const RecipeContext& context, OrderingChoice choice);

}  // namespace stretto
