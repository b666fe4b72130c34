#include "stretto/train/recipes/recipe.h"

#include "stretto/base/error.h"

namespace stretto {

void Recipe::set_state(const std::string& state) {
  if (!state.empty()) throw Failure({Errc::bad_input, "a state of an algorithm that has none"});
}

RecipeMemory memory_of(const PartialAllreduce& collective) {
  const int lag = collective.options().max_lag;
  return {collective.memory_bytes(),
          text(collective.num_contribution_sets(), " sets, and the results of ", lag, lag == 1 ? " round" : " rounds")};
}

StepWaits waits_of_partial_rounds(const Policy& policy, std::uint64_t full_every) {
  return {.for_ranks_ahead = policy.kind != Policy::Kind::solo || full_every != 0};
}

}  // namespace stretto
