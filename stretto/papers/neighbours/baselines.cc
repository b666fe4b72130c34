#include "stretto/papers/baselines.h"

#include "stretto/papers/neighbours/neighbour_averaging.h"
#include "stretto/papers/neighbours/neighbour_search.h"
#include "stretto/train/recipes/sync.h"

namespace stretto {
namespace {

constexpr std::string_view kMixOrders[] = {"average-then-step", "step-then-average"};

constexpr AlgorithmOption kOptionsOfDPsgd[] = {
    {"graph", "GRAPH",
     "d-psgd: who averages with whom: ring (the default), exponential (hops of 1, 2, 4, ... by turns), bipartite (an "
     "even and an odd rank), complete, or a file with an edge \"a b\" a line. sgp, osgp: exponential (the default) or "
     "bipartite.",
     "exponential"},
    {"mix-order", "ORDER",
     "d-psgd: average-then-step (the paper; messages travel while the gradient is computed) or step-then-average. "
     "Default average-then-step.",
     "step-then-average", AlgorithmOption::Kind::word, 0, 0, kMixOrders}};
constexpr AlgorithmOption kOptionsOfSgp[] = {
    {"neighbours", "K",
     "sgp, osgp: ranks to which parts of the model are sent in each step. More mix faster and send more. Default 1.",
     "2", AlgorithmOption::Kind::count, 1}};
constexpr AlgorithmOption kOptionsOfOsgp[] = {
    {"overlap-rounds", "N",
     "osgp: waits for messages of the step N ago alone; 0 is sgp. The more is on its way in messages, the further a "
     "step moves the model that is left. Default 1.",
     "1", AlgorithmOption::Kind::count, 0, 1000}};

constexpr std::string_view kStateOptions[] = {"average-momentum", "average-statistics"};
constexpr std::string_view kSgpOptions[] = {"graph", "average-momentum", "average-statistics"};
constexpr std::string_view kOsgpOptions[] = {"graph", "neighbours", "average-momentum", "average-statistics"};

constexpr RecipeInfo kRecipes[] = {
    {.name = "d-psgd",
     .description = "models, averaged with those of the neighbours in a graph in every step (D-PSGD)",
     .data = "partitioned",
     .policy = sync_policy,
     .make = make_d_psgd,
     .averages_models = true,
     .local_steps = kMeetsAtTheEnd,
     .options = kStateOptions,
     .check = check_d_psgd,
     .across_worlds = AcrossWorlds::averaged,
     .parts_ranks = true,
     .own_options = kOptionsOfDPsgd},
    {.name = "sgp",
     .description = "models, parts of which are pushed on to other ranks in every step (stochastic gradient push)",
     .data = "partitioned",
     .policy = sync_policy,
     .make = make_sgp,
     .averages_models = true,
     .local_steps = kMeetsAtTheEnd,
     .options = kSgpOptions,
     .check = check_push_sum,
     .across_worlds = AcrossWorlds::averaged,
     .parts_ranks = true,
     .own_options = kOptionsOfSgp},
    {.name = "osgp",
     .description = "the same, where a rank waits for messages of --overlap-rounds steps ago alone",
     .data = "partitioned",
     .policy = sync_policy,
     .make = make_osgp,
     .averages_models = true,
     .local_steps = kMeetsAtTheEnd,
     .options = kOsgpOptions,
     .check = check_push_sum,
     .across_worlds = AcrossWorlds::averaged,
     .parts_ranks = true,
     .own_options = kOptionsOfOsgp},
    {.name = "gossip-grad",
     .description = "models, averaged with that of one other rank in every step, another one each time",
     .data = "partitioned",
     .policy = sync_policy,
     .make = make_gossip_grad,
     .averages_models = true,
     .local_steps = kMeetsAtTheEnd,
     .options = kStateOptions,
     .check = check_gossip_grad,
     .across_worlds = AcrossWorlds::averaged,
     .parts_ranks = true,
     .draws = true}};

constexpr JobSearch kSearches[] = {{"push-sum", "biased models and their weights, sent on in parts to out-neighbours",
                                    kPushSumReaches, run_push_sum_job, 2},
                                   {"neighbours", "models averaged with those of neighbours, on graphs or by gossip",
                                    kNeighbourReaches, run_neighbour_job, 2}};

}  // namespace

Baselines neighbour_baselines() {
  return {kRecipes, kSearches};
}

}  // namespace stretto
