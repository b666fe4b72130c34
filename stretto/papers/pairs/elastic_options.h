#pragma once

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

}  // namespace stretto
