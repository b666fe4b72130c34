#include "stretto/train/loop/session_options.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/train/options/option_table.h"
#include "stretto/train/recipes/options/ordering_choice.h"

namespace stretto {
namespace {

std::string takers_of_sync_every() {
  std::vector<std::string> names;
  for (const RecipeInfo& recipe : recipes()) {
    if (recipe.local_steps != 0) names.emplace_back(recipe.name);
  }
  return join(names, " or ");
}

void require_taken(const RecipeInfo& recipe, const AlgorithmOptions& options) {
  for (const auto& [name, value] : options.values()) {
    if (std::ranges::count(recipe.options, name) != 0) continue;
    const std::vector<std::string> taken(recipe.options.begin(), recipe.options.end());
    throw UsageError(text(name, " ", value, " with algorithm '", recipe.name, "': expected ",
                          taken.empty() ? "no option of this kind" : join(taken, " or ")));
  }
}

}  // namespace

bool draws(const DistributedOptions& o) {
  const RecipeInfo* recipe = find_recipe(o.algorithm.substr(0, o.algorithm.find(':')));
  return o.algorithm.find("majority") != std::string::npos || (recipe != nullptr && recipe->draws);
}

SessionOptions session_options(const DistributedOptions& o, int ranks) {
  check_values(o, ranks);
  if (o.overlap && o.normalize == Normalize::samples) {
    throw UsageError("overlap with normalize samples: expected another, since step() says the samples only afterwards");
  }
  const Algorithm algorithm = parse_algorithm(o.algorithm, ranks, o.quorum);
  const std::string_view name = algorithm.recipe->name;
  if (o.overlap && name != "sync") {
    throw UsageError(text("overlap with algorithm '", o.algorithm, "': expected sync, the only one that can"));
  }
  if (o.quorum != 0 && o.algorithm != "eager-quorum") {
    throw UsageError(text("quorum ", o.quorum, " with algorithm '", o.algorithm, "': expected eager-quorum alone"));
  }
  if (o.seed != 0 && !draws(o)) {
    throw UsageError(text("seed ", o.seed, " with algorithm '", o.algorithm,
                          "', which draws nothing: expected majority, gossip-grad or ad-psgd; the order of batches has "
                          "BatchesOptions::seed"));
  }
  const RecipeInfo& recipe = *algorithm.recipe;
  if (o.sync_every != 0 && recipe.local_steps == 0) {
    throw UsageError(
        text("sync_every ", o.sync_every, " with algorithm '", o.algorithm, "': expected ", takers_of_sync_every()));
  }
  if (o.normalize == Normalize::ranks && recipe.averages_models) {
    throw UsageError(text("normalize ranks with algorithm '", recipe.name,
                          "': expected contributors or samples, which it averages over"));
  }
  require_taken(recipe, o.algorithm_options);
  require_helper(o.algorithm_options, ranks, o.progress_by);
  SessionOptions options{
      .recipe = algorithm.recipe,
      .recipe_options = {.policy = algorithm.policy,
                         .normalize = o.normalize.value_or(Normalize::ranks),
                         .order = o.fixed_order ? SumOrder::fixed : SumOrder::arrival,
                         .max_lag = o.max_lag,
                         .seats = o.seats,
                         .seed = o.seed,
                         .full_every = algorithm.policy.kind == Policy::Kind::full ? 0 : o.full_every,
                         .local_steps = o.sync_every != 0 ? o.sync_every : recipe.local_steps,
                         .overlap = o.overlap,
                         .notes = true,
                         .compares = !o.allow_different,
                         .argument = algorithm.argument,
                         .algorithm = o.algorithm_options},
      .policy_of = [algorithm, given = o.quorum != 0](int among) { return policy_among(algorithm, given, among); },
      .progress_by = o.progress_by,
      .tell = [](Round, const std::string& line) { std::fprintf(stderr, "stretto: %s\n", line.c_str()); }};
  if (recipe.check != nullptr) recipe.check(options.recipe_options, ranks);
  return options;
}

void check_members(const DistributedOptions& o, int most) {
  const auto refuse = [](const std::string& what, const std::string& expected) {
    throw UsageError(text("members that change with ", what, ": expected ", expected));
  };
  const Algorithm algorithm = parse_algorithm(o.algorithm, most, o.quorum);
  require_goes_on("members that change", algorithm, o.algorithm_options, o.sync_every);
  check_each_number(*algorithm.recipe, session_options(o, most).recipe_options, 1, most);
  if (o.overlap) refuse("overlap", "none: buckets would be handed over in worlds that end meanwhile");
  if (o.progress_by != ProgressBy::thread) refuse("progress by the application", "by a thread, which can be stopped");
}

std::string describe(const DistributedOptions& o) {
  std::string out = o.algorithm;
  for (const JobOption& option : job_options()) {
    if (option.loop.index() == 0 || option.name == "algorithm") continue;
    out += text(" ", option.name, "=", option.value_in(o));
  }
  return text(out, " ", o.algorithm_options.to_string());
}

}  // namespace stretto
