#include "stretto/train/recipes.h"

#include "stretto/base/error.h"
#include "stretto/train/eager.h"
#include "stretto/train/local.h"
#include "stretto/train/sync.h"

namespace stretto {
namespace {

constexpr RecipeInfo kRecipes[] = {
    {"sync", "", "gradients of all ranks, averaged in every step: everybody waits for the slowest", "partitioned",
     sync_policy, make_sync},
    {"eager-solo", "", "gradients of whoever has come when the first one comes: nobody waits", "shared", solo_policy,
     make_eager},
    {"eager-majority", "", "gradients of whoever has come when one rank, drawn for the round, comes (the paper's)",
     "shared", majority_policy, make_eager},
    {"eager-quorum", "[:Q]", "gradients of whoever has come when Q ranks have; Q = half of them by default", "shared",
     quorum_policy, make_eager},
    {"eager-deadline", ":Q,TIME", "gradients of all ranks, or of Q once TIME (or \"adaptive\") has passed", "shared",
     deadline_policy, make_eager},
    {"local", "", "models, averaged over all ranks every --sync-every steps of their own (local SGD)", "partitioned",
     sync_policy, make_local},
};

}  // namespace

std::span<const RecipeInfo> recipes() {
  return kRecipes;
}

Algorithm parse_algorithm(const std::string& text, int ranks, int quorum) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string argument = colon == std::string::npos ? "" : text.substr(colon + 1);
  std::string known;
  for (const RecipeInfo& recipe : kRecipes) {
    known += stretto::text(known.empty() ? "" : ", ", recipe.name, recipe.argument);
    if (recipe.name != name) continue;
    if (colon != std::string::npos && (recipe.argument.empty() || argument.empty())) {
      throw UsageError(stretto::text("algorithm '", text, "': expected ", recipe.name, recipe.argument));
    }
    return {&recipe, recipe.policy(argument, ranks, quorum)};
  }
  throw UsageError(stretto::text("unknown algorithm '", text, "'; there are ", known));
}

}  // namespace stretto
