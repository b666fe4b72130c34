#pragma once

#include <cstdint>
#include <memory>

#include "stretto/train/recipes/recipe.h"

namespace stretto {

/// AD-PSGD (Lian, Zhang, Zhang, Liu: Asynchronous Decentralized Parallel Stochastic Gradient Descent, ICML 2018): after
/// each step of its own an even rank averages its model with that of an odd rank, drawn from the seed, whose engine
/// answers at once, whatever its application does. The exchange goes on while the next batch is computed. Every
/// RecipeOptions::local_steps steps of its own each rank meets all others, and the average of all models is the model
/// of all; likewise at the end. Two messages of the size of the model a step of an even rank. Optimizer states and
/// buffers as StateAverage says.
std::unique_ptr<Recipe> make_ad_psgd(const RecipeContext& context);
/// RecipeInfo::check: as check_state_average().
void check_ad_psgd(const RecipeOptions& options, int ranks);
void check_easgd_async(const RecipeOptions& options, int ranks);  ///< the same, and check_elastic_options()

/// Asynchronous elastic averaging (Zhang, Choromanska, LeCun: Deep Learning with Elastic Averaging SGD, NeurIPS 2015,
/// section 3): every RecipeOptions::local_steps steps of its own a rank and the center, which rank 0 owns and nobody
/// trains, move towards one another by alpha of their distance (the center by beta/P, if that is given). At the end the
/// center is the model of all; likewise where RecipeOptions::full_every, or the option `full-every`, asks for full
/// rounds, after which every rank goes on from the center. Two messages of the size of the model an exchange. Optimizer
/// states and buffers as StateAverage says.
std::unique_ptr<Recipe> make_easgd_async(const RecipeContext& context);

}  // namespace stretto
