#pragma once

#include <memory>

#include "stretto/train/recipes/recipe.h"

namespace stretto {

/// Elastic averaging SGD (Zhang, Choromanska, LeCun: Deep Learning with Elastic Averaging SGD, NeurIPS 2015, section
/// 2): every RecipeOptions::local_steps (τ) steps of its own each rank meets all others. A rank with model x moves by
/// d = alpha × (x − center) towards the *center*, and the center by beta / (P × alpha) × Σ d. Each rank keeps the
/// center by itself, the same to the bit, since all add the same sum.
///
/// While the RoundListener hears of a round, and at the end, the center is the replica's model; between rounds the
/// replica has the rank's own. A job that goes on from a checkpoint does so with every rank at the center. One
/// allreduce of the size of the model a round; waits for all ranks that have batches. Optimizer states and buffers
/// as StateAverage says.
std::unique_ptr<Recipe> make_easgd(const RecipeContext& context);

}  // namespace stretto
