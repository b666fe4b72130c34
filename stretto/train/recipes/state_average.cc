#include "stretto/train/recipes/state_average.h"

#include "stretto/base/error.h"

namespace stretto {

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

}  // namespace stretto
