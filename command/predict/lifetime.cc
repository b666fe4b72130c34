#include "command/predict/lifetime.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "command/cli/table.h"
#include "command/statistics/restarts.h"
#include "stretto/train/recipes/recipes.h"

namespace stretto::command {

LifetimeCost cost_of_lifetime(const Choice& choice, int ranks, double step, double life) {
  const std::string_view algorithm = std::string_view(choice.algorithm).substr(0, choice.algorithm.find(':'));
  const RecipeInfo* const recipe = find_recipe(algorithm);
  LifetimeCost cost;
  cost.goes_on = recipe != nullptr && recipe->across_worlds != AcrossWorlds::refused;
  cost.changes = 2 * ranks / life * 3600;
  cost.lost_share = std::min(1.0, 2 * ranks / life * step);
  cost.lost_by_restarts = 1 - restarts_keep({.members = ranks, .life = life, .step = step});
  const std::string restarts = fmt::format("restarts lose {}: {}", percent(cost.lost_by_restarts), restarts_in_words());
  const std::string changes =
      fmt::format("Members that live {:.4g} s in the mean change {:.3g} times an hour", life, cost.changes);
  cost.sentence =
      cost.goes_on
          ? fmt::format("{}. With --ranks MIN:MAX a change costs each about a step, {} of their time under {}; {}",
                        changes, percent(cost.lost_share), choice.name(), restarts)
          : fmt::format("{}, with which {} does not go on; {}", changes, choice.name(), restarts);
  return cost;
}

}  // namespace stretto::command
