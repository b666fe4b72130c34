#pragma once

#include "stretto/train/recipes/recipe.h"

namespace stretto {

/// The average of state beside the models, in rounds of all ranks. Options: average-momentum, the optimizer's state
/// (momentum, Adam's moments); average-statistics, the running statistics of BatchNorm. Unless said otherwise both stay
/// local to each rank. One application thread.
class StateAverage {
 public:
  /// `momentum`: whether average-momentum is yes where nothing is said.
  explicit StateAverage(const RecipeContext& context, bool momentum = false);

  /// Inside the function that applies a round whose policy is full and that is not empty: on every rank, each of which
  /// waits for all. Throws Failure.
  void run(Driver& driver);

 private:
  Meeting& meeting_;
  const bool momentum_;
  const bool statistics_;
};

/// For RecipeInfo::check. Throws UsageError where the options ask for one of the two and all ranks meet at the end
/// alone, where it would change nothing. `expected`: the option that lets them meet before, as in "sync-every 10".
void check_state_average(const RecipeOptions& options, bool meet_before_the_end, std::string_view expected);

}  // namespace stretto
