#include "stretto/train/recipes/model_average.h"

#include "stretto/train/recipes/state_average.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

FullRounds::Cargo models_of(const RecipeContext& context) {
  Replica& replica = context.replica;
  check_weights(context.options.normalize, replica.parameter_buckets());
  const bool weighted = context.options.normalize == Normalize::samples;
  const auto load = [&replica, weighted](Contribution& mine, const DepositInfo& since) {
    const double weight = weighted ? static_cast<double>(since.samples) : 1.0;
    for (std::size_t b = 0; b < replica.parameter_buckets().size(); ++b) {
      const int bucket = static_cast<int>(b);
      scale(replica.parameter_buckets()[b].type, mine.bucket(bucket), replica.parameters(bucket), weight);
    }
  };
  const auto unload = [&replica, weighted, state = StateAverage(context)](Driver& driver,
                                                                          const RoundResult& result) mutable {
    const double divisor =
        weighted ? static_cast<double>(result.header->samples) : static_cast<double>(result.header->contributors());
    // Without a sample no rank has moved its model since the last round: they are still alike.
    for (std::size_t b = 0; b < replica.parameter_buckets().size() && divisor != 0; ++b) {
      divide(replica.parameter_buckets()[b].type, replica.parameters(static_cast<int>(b)), result.buckets[b], divisor);
    }
    state.run(driver);
  };
  return {.buckets = replica.parameter_buckets(), .load = load, .unload = unload};
}

}  // namespace

ModelAverage::ModelAverage(const RecipeContext& context, StepCount step_count)
    : FullRounds(context, models_of(context), step_count) {}

std::optional<std::string> end_own_backward(Replica& replica) {
  replica.end_backward();
  for (std::size_t b = 0; b < replica.buckets().size(); ++b) {
    if (auto non_finite = replica.find_non_finite(static_cast<int>(b))) return non_finite;
  }
  return std::nullopt;
}

}  // namespace stretto
