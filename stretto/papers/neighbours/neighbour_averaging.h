#pragma once

#include <memory>

#include "stretto/train/recipes/recipe.h"

namespace stretto {

// Algorithms in which a rank moves its own model and averages it with those of a few neighbours in each round, a round
// a step. The model of all is the average over all ranks, at the end and every RecipeOptions::local_steps steps of a
// rank, each model counted once; optimizer states and buffers as StateAverage says. A rank without further batches goes
// on averaging as long as others need it. Rounds of neighbours are no rounds to the RoundListener; averages of all are.

/// D-PSGD (Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?", NeurIPS 2017, Algorithm 1).
/// Option `graph`: ring (default) or another one (papers/neighbours/graphs.h). Option `mix-order`:
/// `average-then-step`, the paper's, sends the model on which the next gradient is computed, and moves the mean of the
/// neighbours' by that gradient: the messages travel while it is computed. `step-then-average` sends the moved model.
/// A message of the size of the model to each neighbour a step.
std::unique_ptr<Recipe> make_d_psgd(const RecipeContext& context);
/// Throws UsageError for a graph that these ranks cannot have, and as check_state_average().
void check_d_psgd(const RecipeOptions& options, int ranks);

/// GossipGraD (Daily et al., arXiv 1803.05880): the mean of the own moved model and that of one other rank, another one
/// in each round (gossip_links()). One message of the size of the model a step. Here models are exchanged, once a step;
/// the paper also passes samples on along a ring (Sharing::ring).
std::unique_ptr<Recipe> make_gossip_grad(const RecipeContext& context);
void check_gossip_grad(const RecipeOptions& options, int ranks);  ///< of what each of these algorithms refuses

/// Stochastic gradient push (Assran et al., "Stochastic Gradient Push for Distributed Deep Learning", ICML 2019,
/// Algorithm 1) on time-varying graphs (papers/neighbours/graphs.h). Options `graph`: exponential (default) or
/// bipartite; `neighbours`: 1 (default), 2 or 4. A message of the size of the model to each of them a step.
std::unique_ptr<Recipe> make_sgp(const RecipeContext& context);
/// Overlapped SGP (the same paper, section 4 and Algorithm 2): waits for messages of the round `overlap-rounds` (1)
/// back alone, and adds newer ones when they come. With 0 it is SGP to the bit. A step is added to the biased model z
/// as it is, and the model is z/w: while much of z and w is in messages, a step moves the model 1/w times as far.
std::unique_ptr<Recipe> make_osgp(const RecipeContext& context);
/// Throws UsageError for a graph, or a number of neighbours, that these ranks cannot have, and as
/// check_state_average().
void check_push_sum(const RecipeOptions& options, int ranks);

}  // namespace stretto
