#pragma once

#include <memory>
#include <optional>
#include <string>

#include "stretto/papers/servers/server_options.h"
#include "stretto/predict/shape/algorithm_shape.h"
#include "stretto/predict/shape/rank_steps.h"
#include "stretto/train/recipes/recipe.h"

namespace stretto {

/// \file
/// A sharded parameter server (papers/servers/parameter_server.h): the servers hold the weights, ranks push
/// gradients and pull weights after each step. All ranks are servers unless --servers says otherwise, and all of them
/// train.
///
/// The servers move the weights, by stochastic gradient descent with momentum. A rank multiplies its gradient by its
/// own learning rate before it pushes it, and adds its weight decay, taken at the weights it has computed on; so a
/// server needs no schedule: v = m·v + Σ lr·g / n, w −= v. With a constant rate this is Torch's SGD up to rounding;
/// where the rate changes, what is in the velocity keeps the rate it came with. Other optimizers are refused.
///
/// The divisor n is that of a whole step, P or K, also where a version takes one gradient alone (ps-async, ssp); with
/// Normalize::contributors the number of gradients that the version takes. Buffers as StateAverage says.
///
/// Layer by layer (is_layerwise()) a bucket is pushed as soon as its backward pass is done. With
/// WeightsByBucket::bring_by_bucket() a forward pass begins, too, when the weights of its first layer are there, and
/// waits before each layer for those of that layer; gradients then lie in two sets by turns.
///
/// Every RecipeOptions::local_steps steps of its own, and as often as RecipeOptions::full_every asks, each rank pulls
/// the weights that hold all gradients so far, the same on all ranks, and a full round (FullRounds) counts the batches;
/// likewise at the end. With momentum the round also brings every rank the velocities of all servers, for a checkpoint:
/// an allreduce of the size of the model.

std::unique_ptr<Recipe> make_ps_sync(const RecipeContext& context);
std::unique_ptr<Recipe> make_ps_async(const RecipeContext& context);
std::unique_ptr<Recipe> make_ssp(const RecipeContext& context);
std::unique_ptr<Recipe> make_k_sync(const RecipeContext& context);

/// Whether buckets go to the servers during the backward pass: --layerwise, and RecipeOptions::overlap by default.
bool is_layerwise(const RecipeOptions& options);

/// RecipeInfo::policy. Throw UsageError where S or K is missing or no whole number.
Policy ssp_policy(const std::string& argument, int ranks, int quorum);
Policy k_sync_policy(const std::string& argument, int ranks, int quorum);  ///< also for a K of 0 or beyond the ranks

/// RecipeInfo::check.
void check_ps_sync(const RecipeOptions& options, int ranks);
void check_ps_async(const RecipeOptions& options, int ranks);  ///< as check_ps_sync(), as are the next
void check_ssp(const RecipeOptions& options, int ranks);
void check_k_sync(const RecipeOptions& options, int ranks);
/// RecipeInfo::shape; none where ranks meet before the end.
std::optional<AlgorithmShape> ps_sync_shape(const RecipeOptions& options, int ranks);
std::optional<AlgorithmShape> ps_async_shape(const RecipeOptions& options, int ranks);  ///< as ps_sync_shape()
std::optional<AlgorithmShape> ssp_shape(const RecipeOptions& options, int ranks);       ///< likewise
std::optional<AlgorithmShape> k_sync_shape(const RecipeOptions& options, int ranks);    ///< likewise

/// PushShape::simulate of `workers` ranks with servers.
Applied simulate_servers(const ServerOptions& options, RankSteps& steps, int workers, const ShapeJob& job);

}  // namespace stretto
