#include "stretto/train/loop/loop_environment.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "stretto/base/error.h"
#include "stretto/train/loop/session_options.h"
#include "stretto/train/options/option_table.h"
#include "stretto/train/recipes/recipes.h"

namespace stretto {
namespace {

/// Sets the option as its variable says: "ranks" as STRETTO_RANKS. Returns whether that is set and not empty.
bool take(TrainOptions& options, std::string_view name) {
  std::string variable = text("STRETTO_", name);
  std::ranges::transform(variable, variable.begin(), [](unsigned char letter) { return std::toupper(letter); });
  const char* value = std::getenv(variable.c_str());
  if (value == nullptr || *value == '\0') return false;
  std::ranges::find(job_options(), name, &JobOption::name)->set(options, variable + "=", value);
  return true;
}

// Without what this algorithm has no use for.
DistributedOptions with_algorithm(DistributedOptions options, const std::string& algorithm) {
  options.algorithm = algorithm;
  const std::string name = options.algorithm.substr(0, options.algorithm.find(':'));
  if (name != "sync") options.overlap = false;
  if (options.algorithm != "eager-quorum") options.quorum = 0;
  const RecipeInfo* recipe = find_recipe(name);
  if (recipe == nullptr) return options;  // which is refused where it is parsed
  if (recipe->local_steps == 0) options.sync_every = 0;
  if (recipe->averages_models && options.normalize == Normalize::ranks) options.normalize.reset();
  options.algorithm_options.keep_only(recipe->options);
  return options;
}

}  // namespace

LoopEnvironment loop_environment() {
  LoopEnvironment environment;
  TrainOptions said;
  if (take(said, "algorithm")) environment.algorithm = said.algorithm;
  if (take(said, "ranks")) environment.ranks = said.ranks;
  if (take(said, "seats")) environment.seats = said.seats;
  if (take(said, "seed")) environment.seed = said.seed;
  if (take(said, "imbalance")) environment.imbalance = said.imbalance;
  if (take(said, "out")) environment.out = said.out;
  return environment;
}

DistributedOptions overridden(DistributedOptions options, const LoopEnvironment& environment) {
  if (environment.algorithm) options = with_algorithm(std::move(options), *environment.algorithm);
  options.seats = environment.seats.value_or(options.seats);
  if (draws(options)) {
    options.seed += environment.seed;
  } else if (environment.algorithm) {
    options.seed = 0;
  }
  return options;
}

}  // namespace stretto
