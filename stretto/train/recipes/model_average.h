#pragma once

#include <optional>
#include <string>

#include "stretto/train/recipes/full_rounds.h"
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

/// The full rounds in which the models of the ranks are averaged. A recipe that averages in other ways, too, has these
/// for its checkpoints and its end.
///
/// Every rank replaces its model by the average over the ranks that brought one, so ranks that have run out of batches
/// neither hold the others up nor weigh on it. It counts each model once, or, with Normalize::samples, as often as it
/// has seen samples since the last; a rank that has passed all its steps since then weighs nothing then, and else as
/// any other. A rank may hand its model over without steps of its own since the last round, too: others have moved it.
/// Optimizer states and buffers as StateAverage says.
class ModelAverage final : public FullRounds {
 public:
  /// Throws as FullRounds.
  explicit ModelAverage(const RecipeContext& context, StepCount step_count = StepCount::none);
};

/// Ends the backward pass of a rank that moves its own weights. Returns the first gradient that is not finite.
std::optional<std::string> end_own_backward(Replica& replica);

}  // namespace stretto
