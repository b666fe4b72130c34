#include "stretto/papers/baselines.h"

#include "stretto/papers/servers/server.h"
#include "stretto/papers/servers/server_options.h"
#include "stretto/papers/servers/server_search.h"
#include "stretto/train/recipes/sync.h"

namespace stretto {
namespace {

constexpr std::string_view kLayerwise[] = {"yes", "no"};

constexpr AlgorithmOption kOptionsOfServers[] = {
    {"servers", "N",
     "ps-sync, ps-async, ssp, k-sync: the first N ranks hold the weights, bucket by bucket in turns, beside training; "
     "dedicated:N: the last N ranks, which do nothing else and need --data shared. Default: all ranks hold some.",
     "dedicated:1"},
    {"layerwise", "yes|no",
     "ps-sync, ps-async, ssp, k-sync: push each bucket's gradient and ask for its weights as soon as its backward pass "
     "is done, and wait before each layer of the next forward pass for that layer's weights, in memory of twice the "
     "model's size more; no: push after the backward pass and wait for all. Default: yes, but where a step is "
     "stretched by sleeping.",
     "no", AlgorithmOption::Kind::word, 0, 0, kLayerwise}};

constexpr std::string_view kStatistics[] = {"average-statistics"};
constexpr std::string_view kServerOptions[] = {"servers", "layerwise", "average-statistics"};

constexpr RecipeInfo kRecipes[] = {
    {.name = "ps-sync",
     .description = "weights on servers, moved once a step by the gradients of all ranks",
     .data = "partitioned",
     .policy = sync_policy,
     .make = make_ps_sync,
     .shape = ps_sync_shape,
     .averages_models = true,
     .local_steps = kMeetsAtTheEnd,
     .options = kStatistics,
     .check = check_ps_sync,
     .parts_ranks = true,
     .own_options = kOptionsOfServers,
     .by_layer = is_layerwise,
     .without_batches = dedicated_servers},
    {.name = "ps-async",
     .description = "weights on servers, moved by each gradient as it comes: nobody waits",
     .data = "shared",
     .policy = sync_policy,
     .make = make_ps_async,
     .shape = ps_async_shape,
     .averages_models = true,
     .local_steps = kMeetsAtTheEnd,
     .options = kServerOptions,
     .check = check_ps_async,
     .parts_ranks = true,
     .by_layer = is_layerwise,
     .without_batches = dedicated_servers},
    {.name = "ssp",
     .argument = ":S",
     .description = "as ps-async, but no rank goes on while another is more than S steps behind",
     .data = "shared",
     .policy = ssp_policy,
     .make = make_ssp,
     .shape = ssp_shape,
     .averages_models = true,
     .local_steps = kMeetsAtTheEnd,
     .options = kServerOptions,
     .check = check_ssp,
     .parts_ranks = true,
     .by_layer = is_layerwise,
     .without_batches = dedicated_servers},
    {.name = "k-sync",
     .argument = ":K",
     .description = "weights on servers, moved by the first K gradients of a step; later ones are dropped",
     .data = "partitioned",
     .policy = k_sync_policy,
     .make = make_k_sync,
     .shape = k_sync_shape,
     .averages_models = true,
     .local_steps = kMeetsAtTheEnd,
     .options = kServerOptions,
     .check = check_k_sync,
     .parts_ranks = true,
     .by_layer = is_layerwise,
     .without_batches = dedicated_servers}};

constexpr JobSearch kSearches[] = {
    {"server", "a sharded parameter server: sync, async, ssp and k-sync", kServerReaches, run_server_job}};

}  // namespace

Baselines server_baselines() {
  return {kRecipes, kSearches};
}

}  // namespace stretto
