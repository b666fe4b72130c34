#include "stretto/train/recipes/recipe.h"

#include "stretto/base/error.h"

namespace stretto {

void Recipe::pass(const DepositInfo&) {
  throw UsageError("pass() under an algorithm whose ranks cannot drop a batch: expected deposit() in each step");
}

void Recipe::set_state(const std::string& state) {
  if (!state.empty()) throw Failure({Errc::bad_input, "a state of an algorithm that has none"});
}

RecipeMemory memory_of(const PartialAllreduce& collective) {
  const int lag = collective.options().max_lag;
  return {collective.memory_bytes(),
          text(collective.num_contribution_sets(), " sets, and the results of ", lag, lag == 1 ? " round" : " rounds")};
}

void check_weights(Normalize normalize, const std::vector<BucketSpec>& buckets) {
  if (normalize != Normalize::samples) return;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    if (buckets[b].type != DataType::float16) continue;
    throw UsageError(text("normalize samples with bucket ", b,
                          " of float16: a number times that of the samples may be ",
                          "beyond 65504, the largest there is; expected normalize ranks or contributors, or bfloat16"));
  }
}

StepWaits waits_of_partial_rounds(const Policy& policy, std::uint64_t full_every) {
  return {.for_ranks_ahead = policy.kind != Policy::Kind::solo || full_every != 0};
}

}  // namespace stretto
