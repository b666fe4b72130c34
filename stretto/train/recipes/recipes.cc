#include "stretto/train/recipes/recipes.h"

#include <algorithm>
#include <iterator>

#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/dispenser/dispenser.h"
#include "stretto/predict/shape/algorithm_shape.h"
#include "stretto/train/recipes/diloco.h"
#include "stretto/train/recipes/eager.h"
#include "stretto/train/recipes/grid.h"
#include "stretto/train/recipes/sync.h"
#include "stretto/train/recipes/wagma.h"

namespace stretto {
namespace {

constexpr std::string_view kEagerOptions[] = {"rounds"};
constexpr std::string_view kDilocoOptions[] = {"outer-lr",   "outer-momentum",   "keep",
                                               "full-every", "average-momentum", "average-statistics"};
constexpr std::string_view kLocalOptions[] = {"post-local", "average-momentum", "average-statistics"};
constexpr std::string_view kWagmaOptions[] = {"tau",       "group-order",      "group-quorum",
                                              "stale",     "publish",          "late",
                                              "group-sum", "average-momentum", "average-statistics"};

constexpr std::string_view kGridOptions[] = {"alpha",
                                             "elastic-rule",
                                             "layout",
                                             "dimensions",
                                             "grid-rows",
                                             "reduce-share",
                                             "complete-share",
                                             "advance-share",
                                             "line-patience",
                                             "missing",
                                             "rounds-in-flight",
                                             "compression",
                                             "steps-per-exchange",
                                             "average-momentum",
                                             "momentum-exchange",
                                             "average-statistics"};

constexpr std::string_view kSyncOptions[] = {"ordering",        "cycle-time",        "fusion-bytes",  "gs-every",
                                             "cache-capacity",  "negotiation-wait",  "in-flight",     "cores",
                                             "background-only", "scheduler-threads", "shuffle-ready", "plan-patience",
                                             "on-change",       "stall-warning",     "stall-abort"};

constexpr RecipeInfo kRecipes[] = {
    {"sync", "", "gradients of all ranks, averaged in every step: everybody waits for the slowest", "partitioned",
     sync_policy, make_sync, sync_shape, false, 0, kSyncOptions, check_sync, AcrossWorlds::carried},
    {"eager-solo", "", "gradients of whoever has come when the first one comes: nobody waits", "shared", solo_policy,
     make_eager, eager_shape, false, 0, kEagerOptions, check_eager, AcrossWorlds::carried},
    {"eager-majority", "", "gradients of whoever has come when one rank, drawn for the round, comes (the paper's)",
     "shared", majority_policy, make_eager, eager_shape, false, 0, kEagerOptions, check_eager, AcrossWorlds::carried},
    {"eager-quorum", "[:Q]", "gradients of whoever has come when Q ranks have; Q = half of them by default", "shared",
     quorum_policy, make_eager, eager_shape, false, 0, kEagerOptions, check_eager, AcrossWorlds::carried},
    {"eager-deadline", ":Q,TIME", "gradients of all ranks, or of Q once TIME (or \"adaptive\") has passed", "shared",
     deadline_policy, make_eager, eager_shape, false, 0, kEagerOptions, check_eager, AcrossWorlds::carried},
    {"wagma", "[:S]",
     "models, averaged in groups of S ranks, others in each round; nobody waits but every --tau rounds", "partitioned",
     wagma_policy, make_wagma, wagma_shape, true, 0, kWagmaOptions, check_wagma, AcrossWorlds::averaged, true},
    {"wagma-quorum", "[:S]", "the same once half of the ranks have come; a late rank keeps all of its steps", "shared",
     wagma_policy, make_wagma_quorum, wagma_quorum_shape, true, 0, kWagmaOptions, check_wagma_quorum,
     AcrossWorlds::averaged, true, false, true},
    {"local", "[:POLICY]",
     "models, averaged every --sync-every steps of their own (local SGD); POLICY: over the ranks that have come, as in "
     "local:quorum:4",
     "partitioned", phase_policy, make_local, local_shape, true, 8, kLocalOptions, check_local, AcrossWorlds::carried},
    {"diloco", "[:POLICY]",
     "--sync-every own steps, then one outer step of all with Nesterov's momentum; POLICY: with those that have come, "
     "as in diloco:quorum:4",
     "partitioned", phase_policy, make_diloco, diloco_shape, false, 8, kDilocoOptions, check_diloco,
     AcrossWorlds::carried},
    {.name = "easgd-grid",
     .description =
         "models, averaged in rows and columns of a grid beside training: nobody waits for anybody (elastic)",
     .data = "shared",
     .policy = sync_policy,
     .make = make_grid,
     .averages_models = true,
     .local_steps = kMeetsAtTheEnd,
     .options = kGridOptions,
     .check = check_grid,
     .across_worlds = AcrossWorlds::averaged,
     .parts_ranks = true,
     .own_lines = true},
};

constexpr std::string_view kPlain = "a name of small letters, digits and dashes, as in local or d-psgd";

struct Registry {
  std::deque<RecipeInfo> recipes{std::begin(kRecipes), std::end(kRecipes)};
  std::deque<std::vector<std::string_view>> options;  // of those added, the names that they take
};

Registry& registry() {
  static Registry all;
  return all;
}

[[noreturn]] void reject(const RecipeInfo& recipe, const std::string& why) {
  throw UsageError(text("algorithm '", recipe.name, "' of one's own: ", why));
}

/// Whether it can be written as `--algorithm NAME:ARGUMENT`, in a list between commas, and as an option.
bool is_plain(std::string_view name) {
  const auto is_letter = [](char c) { return 'a' <= c && c <= 'z'; };
  return !name.empty() && is_letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || ('0' <= c && c <= '9') || c == '-'; });
}

void check_options(const RecipeInfo& recipe) {
  std::vector<std::string> known;
  for (const AlgorithmOption& option : algorithm_options()) known.emplace_back(option.name);
  for (const std::string_view name : recipe.options) {
    if (std::ranges::count(known, name) != 0) continue;
    throw UsageError(text("option '", name, "', which there is not: ", suggestion(name, known)));
  }
  for (const AlgorithmOption& option : recipe.own_options) {
    if (!is_plain(option.name)) {
      throw UsageError(text("option '", option.name, "': expected ", kPlain));
    }
    if (std::ranges::count(known, option.name) != 0) {
      throw UsageError(text("option '", option.name, "' is taken: expected another name, or, where it means the same, ",
                            "this one in RecipeInfo::options"));
    }
    check_value(option, std::string(option.example));
    known.emplace_back(option.name);
  }
}

}  // namespace

const std::deque<RecipeInfo>& recipes() {
  return registry().recipes;
}

void register_recipe(const RecipeInfo& recipe) {
  if (!is_plain(recipe.name)) reject(recipe, text("expected ", kPlain));
  if (find_recipe(recipe.name) != nullptr) {
    reject(recipe, "the name is taken; expected another one");
  }
  if (recipe.policy == nullptr || recipe.make == nullptr) {
    reject(recipe, "RecipeInfo::policy or RecipeInfo::make is null: expected both");
  }
  try {
    parse_sharing(std::string(recipe.data));
    check_options(recipe);
  } catch (const UsageError& error) {
    reject(recipe, error.what());
  }
  auto& names = registry().options.emplace_back(recipe.options.begin(), recipe.options.end());
  for (const AlgorithmOption& option : recipe.own_options) {
    register_algorithm_option(option);
    names.push_back(option.name);
  }
  registry().recipes.push_back(recipe);
  registry().recipes.back().options = names;
}

const RecipeInfo* find_recipe(std::string_view name) {
  const auto found = std::ranges::find(recipes(), name, &RecipeInfo::name);
  return found == recipes().end() ? nullptr : &*found;
}

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const RecipeInfo& recipe : recipes()) names.emplace_back(recipe.name);
  return names;
}

Algorithm parse_algorithm(const std::string& text, int ranks, int quorum) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string argument = colon == std::string::npos ? "" : text.substr(colon + 1);
  const RecipeInfo* recipe = find_recipe(name);
  if (recipe == nullptr) {
    throw UsageError(stretto::text("unknown algorithm '", text, "': ", suggestion(name, algorithm_names())));
  }
  if (colon != std::string::npos && (recipe->argument.empty() || argument.empty())) {
    throw UsageError(stretto::text("algorithm '", text, "': expected ", recipe->name, recipe->argument));
  }
  return {recipe, recipe->policy(argument, ranks, quorum), argument};
}

Policy policy_among(const Algorithm& algorithm, bool quorum_given, int ranks) {
  Policy policy = algorithm.policy;
  const bool is_half = algorithm.argument == "quorum";  // of diloco:quorum
  if (is_half || (algorithm.argument.empty() && !quorum_given)) {
    policy = algorithm.recipe->policy(algorithm.argument, ranks, 0);
  }
  policy.quorum = std::min(policy.quorum, static_cast<std::uint32_t>(ranks));
  return policy;
}

void check_each_number(const RecipeInfo& recipe, RecipeOptions options, int least, int most) {
  if (recipe.check == nullptr || recipe.across_worlds != AcrossWorlds::averaged) return;
  options.members_change = true;
  for (int ranks = least; ranks <= most; ++ranks) recipe.check(options, ranks);
}

void require_goes_on(const std::string& begin, const Algorithm& algorithm, const AlgorithmOptions& options,
                     std::uint64_t sync_every) {
  const auto refuse = [&begin](const std::string& what, const std::string& expected) {
    throw UsageError(text(begin, " with ", what, ": expected ", expected));
  };
  if (algorithm.recipe->across_worlds == AcrossWorlds::refused) {
    const std::string argument = algorithm.argument.empty() ? "" : ":" + algorithm.argument;
    refuse(text("algorithm '", algorithm.recipe->name, argument, "'"),
           "one that goes on where members change, as sync, eager-quorum, diloco or wagma");
  }
  const std::uint64_t most = PartialOptions::kMostBatchesOfAChangingMember;
  if (algorithm.recipe->local_steps != 0 && sync_every > most) {
    refuse(text("sync-every ", sync_every), text("at most ", most, ", since rounds count the batches of each rank"));
  }
  if (options.count("tau", 1) > most) refuse(text("tau ", options.count("tau", 1)), text("at most ", most));
  if (options.given("ordering")) refuse("an ordering", "none: it is agreed upon among all ranks");
  if (options.word("rounds", "one") != "one") refuse("rounds per-bucket", "rounds of all buckets");
}

}  // namespace stretto
