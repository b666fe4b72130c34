#include "stretto/papers/register.h"

#include "stretto/papers/baselines.h"

namespace stretto {
namespace {

std::vector<Baselines> all_baselines() {
  return {neighbour_baselines(), ordering_baselines(), pair_baselines(), server_baselines()};
}

bool is_registered(const RecipeInfo& recipe) {
  const RecipeInfo* known = find_recipe(recipe.name);
  return known != nullptr && known->make == recipe.make;
}

}  // namespace

void register_papers() {
  for (const Baselines& baselines : all_baselines()) {
    for (const RecipeInfo& recipe : baselines.recipes) {
      if (!is_registered(recipe)) register_recipe(recipe);
    }
    for (const CycleFix& fix : baselines.cycle_fixes) register_cycle_fix(fix);
  }
}

std::vector<JobSearch> paper_searches() {
  std::vector<JobSearch> all;
  for (const Baselines& baselines : all_baselines()) {
    all.insert(all.end(), baselines.searches.begin(), baselines.searches.end());
  }
  return all;
}

}  // namespace stretto
