#pragma once

#include <optional>
#include <string>

#include "stretto/train/recipes/full_rounds.h"
#include "stretto/train/recipes/recipe.h"

namespace stretto {

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
