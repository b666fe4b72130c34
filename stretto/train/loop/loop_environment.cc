#include "stretto/train/loop/loop_environment.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/train/loop/session_options.h"
#include "stretto/train/recipes/recipes.h"
#include "stretto/transport/job_memory.h"

namespace stretto {
namespace {

/// The value of a variable that is set and not empty.
const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

template <class Number>
std::optional<Number> number(const char* name, Number low, Number high) {
  const char* value = variable(name);
  if (value == nullptr) return std::nullopt;
  Number parsed{};
  const char* end = value + std::strlen(value);
  const auto [at, error] = std::from_chars(value, end, parsed);
  if (error != std::errc() || at != end || parsed < low || parsed > high) {
    throw UsageError(text(name, "=", value, ": expected a number from ", low, " to ", high));
  }
  return parsed;
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
  if (const char* algorithm = variable("STRETTO_ALGORITHM")) environment.algorithm = algorithm;
  environment.ranks = number<int>("STRETTO_RANKS", 1, JobMemory::kMaxRanks);
  environment.seed = number<std::uint64_t>("STRETTO_SEED", 0, std::uint64_t{1} << 62).value_or(0);
  if (const char* imbalance = variable("STRETTO_IMBALANCE")) environment.imbalance = imbalance;
  if (const char* out = variable("STRETTO_OUT")) environment.out = out;
  return environment;
}

DistributedOptions overridden(DistributedOptions options, const LoopEnvironment& environment) {
  if (environment.algorithm) options = with_algorithm(std::move(options), *environment.algorithm);
  if (draws(options)) {
    options.seed += environment.seed;
  } else if (environment.algorithm) {
    options.seed = 0;
  }
  return options;
}

}  // namespace stretto
