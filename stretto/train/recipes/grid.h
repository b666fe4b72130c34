#pragma once

#include <memory>
#include <string>

#include "stretto/train/recipes/recipe.h"

namespace stretto {

/// Elastic averaging in a grid (Peng, "Scalable, Efficient Deep Learning by Means of Elastic Averaging",
/// UCB/EECS-2018-77): each rank moves its own weights, and in each dimension of the grid its line averages models round
/// after round beside that (GridAllreduce). After a step, or every --steps-per-exchange of them, a rank takes what has
/// come, moves towards it by --alpha, and publishes its model; it waits for nobody but in full rounds, every
/// --sync-every steps and at the end. With --average-momentum the momentum of SGD travels and moves with the model
/// (GridModel). Options: alpha, elastic-rule, dimensions, layout, grid-rows, reduce-share, complete-share,
/// advance-share, line-patience, missing, rounds-in-flight, compression, steps-per-exchange, average-momentum,
/// momentum-exchange, average-statistics.
std::unique_ptr<Recipe> make_grid(const RecipeContext& context);
/// Throws UsageError where the grid, the shares or alpha do not fit.
void check_grid(const RecipeOptions& options, int ranks);
/// Shares that are of one rank, or of all, in lines as short as these, and an alpha that is too large. Empty: none.
std::string grid_warning(const RecipeOptions& options, int ranks);

}  // namespace stretto
