#pragma once

#include <optional>

#include "stretto/predict/shape/algorithm_shape.h"
#include "stretto/train/recipes/recipe.h"

namespace stretto {

/// Local SGD: each rank takes RecipeOptions::local_steps steps of its own, then the models of all ranks are averaged,
/// full × world. The parameters are averaged; the optimizer's state (momentum) and buffers as StateAverage says.
///
/// A rank hands its model over as a deposit that one round takes. Every rank replaces its own by the average over the
/// ranks that brought one, so ranks that have run out of batches neither hold the others up nor weigh on the average.
/// The average counts each model once, or, with Normalize::samples, as often as it has seen samples since the last.
/// With one local step and plain SGD it equals sync up to rounding. Option `post-local`: one local step until so many
/// batches of all ranks have been applied (Lin et al., "Don't Use Large Mini-Batches, Use Local SGD", ICLR 2020).
/// Under another policy than full: make_local_by_policy() (diloco.h).
std::unique_ptr<Recipe> make_local(const RecipeContext& context);
/// RecipeInfo::check: throws UsageError for no local step, and as check_state_average().
void check_local(const RecipeOptions& options, int ranks);
/// RecipeInfo::shape; none with `post-local`.
std::optional<AlgorithmShape> local_shape(const RecipeOptions& options, int ranks);

}  // namespace stretto
