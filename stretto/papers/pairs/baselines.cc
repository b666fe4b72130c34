#include "stretto/papers/baselines.h"

#include "stretto/papers/pairs/easgd.h"
#include "stretto/papers/pairs/pair_averaging.h"
#include "stretto/papers/pairs/pair_search.h"
#include "stretto/train/recipes/sync.h"

namespace stretto {
namespace {

constexpr AlgorithmOption kOptionsOfEasgd[] = {
    {"beta", "B",
     "easgd, easgd-async: share of the mean distance to the ranks by which the center moves. Default ranks * alpha, "
     "where the sum of center and models moves by the ranks' steps alone.",
     "0.9", AlgorithmOption::Kind::number, 0, 2}};

constexpr std::string_view kStateOptions[] = {"average-momentum", "average-statistics"};
constexpr std::string_view kEasgdOptions[] = {"alpha", "average-momentum", "average-statistics"};
constexpr std::string_view kEasgdAsyncOptions[] = {"alpha", "beta", "full-every", "average-momentum",
                                                   "average-statistics"};

constexpr RecipeInfo kRecipes[] = {
    {.name = "ad-psgd",
     .description = "models, averaged in pairs drawn anew for each step: nobody waits for a slower rank (AD-PSGD)",
     .data = "shared",
     .policy = sync_policy,
     .make = make_ad_psgd,
     .averages_models = true,
     .local_steps = kMeetsAtTheEnd,
     .options = kStateOptions,
     .check = check_ad_psgd,
     .across_worlds = AcrossWorlds::averaged,
     .parts_ranks = true,
     .draws = true},
    {.name = "easgd",
     .description = "models and a center that move towards each other every --sync-every steps (elastic averaging)",
     .data = "partitioned",
     .policy = sync_policy,
     .make = make_easgd,
     .averages_models = true,
     .local_steps = 10,
     .options = kEasgdOptions,
     .check = check_elastic_options,
     .across_worlds = AcrossWorlds::averaged,
     .keeps_models = true,
     .own_options = kOptionsOfEasgd},
    {.name = "easgd-async",
     .description = "the same, each rank with the center alone: nobody waits for a slower rank",
     .data = "shared",
     .policy = sync_policy,
     .make = make_easgd_async,
     .averages_models = true,
     .local_steps = 10,
     .options = kEasgdAsyncOptions,
     .check = check_easgd_async,
     .across_worlds = AcrossWorlds::averaged,
     .parts_ranks = true}};

constexpr JobSearch kSearches[] = {
    {"ad-psgd", "models that ranks exchange in pairs, whose engines answer at once", kPairReaches, run_ad_psgd_job},
    {"easgd-async", "models that ranks exchange with a center", kPairReaches, run_easgd_async_job}};

}  // namespace

Baselines pair_baselines() {
  return {kRecipes, kSearches};
}

}  // namespace stretto
