#include "stretto/train/recipes/model_average.h"

#include "stretto/base/error.h"
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

StateAverage::StateAverage(const RecipeContext& context, bool momentum)
    : meeting_(context.meeting),
      momentum_(context.options.algorithm.word("average-momentum", momentum ? "yes" : "no") == "yes"),
      statistics_(context.options.algorithm.word("average-statistics", "end") == "full") {}

void StateAverage::run(Driver& driver) {
  if (momentum_) meeting_.average_optimizer(driver);
  if (statistics_) meeting_.average_buffers(driver);
}

void check_state_average(const RecipeOptions& options, bool meet_before_the_end, std::string_view expected) {
  if (meet_before_the_end) return;
  const auto refuse = [&](const char* name, const std::string& value) {
    throw UsageError(text(name, " ", value,
                          " where all ranks meet at the end alone: expected rounds of all before, as with ", expected));
  };
  if (options.algorithm.word("average-momentum", "no") == "yes") refuse("average-momentum", "yes");
  if (options.algorithm.word("average-statistics", "end") == "full") refuse("average-statistics", "full");
}

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
