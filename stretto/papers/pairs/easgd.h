#pragma once

#include <memory>

#include "stretto/train/recipes/recipe.h"

namespace stretto {

/// How far ranks and center move towards one another in elastic averaging (Zhang, Choromanska, LeCun, NeurIPS 2015,
/// section 2). With beta = P × alpha the sum of center and models moves by the ranks' steps alone.
struct ElasticOptions {
  double alpha = 0;  ///< of its distance to the center a rank moves in an exchange; 0.9/P unless given
  double beta = 0;   ///< of the mean distance of P ranks the center moves; P × alpha unless given
};

/// The elastic options among RecipeOptions::algorithm. Throws UsageError where the models would swing away from one
/// another, which is so from P × alpha = 2 or beta = 2 on; from 1 on they swing, and come closer all the same.
ElasticOptions elastic_options(const RecipeOptions& options, int ranks);
/// Recipe::warning() of rounds in which all ranks move at once: from P × alpha = 1 on. Empty: none.
std::string elastic_warning(const ElasticOptions& options, int ranks);
/// The same as elastic_options(), as RecipeInfo::check.
void check_elastic_options(const RecipeOptions& options, int ranks);

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
