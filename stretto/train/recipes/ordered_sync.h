#pragma once

#include <memory>

#include "stretto/train/recipes/options/ordering_choice.h"
#include "stretto/train/recipes/recipe.h"

namespace stretto {

/// Synchronous SGD whose gradients are reduced tensor by tensor, in an order on which the ranks agree or that is
/// planned (docs/ordering.md), and which may sum over the ranks while the model computes. The same bits as `sync`
/// without an order, whichever it is: sums are taken element by element in the fixed order (docs/protocol.md, Bits).
std::unique_ptr<Recipe> make_ordered_sync(const RecipeContext& context, OrderingChoice choice);

}  // namespace stretto
