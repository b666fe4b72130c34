#pragma once

/// \file
/// Stretto for a training loop of one's own with LibTorch: stretto::run_ranks() starts the ranks, also under mpirun,
/// and in each of them a stretto::DistributedOptimizer takes the optimizer's place. Needs no Torch header itself. Each
/// part has one header: stretto/collective/plain.h for broadcast, allgather and allreduce,
/// stretto/collective/partial_allreduce.h for the collective that does not wait. For an algorithm of your own
/// (docs/own_algorithm.md): stretto::Recipe and stretto::GradientAveraging.
///
/// \namespace stretto
/// Everything of the library.

#include "stretto/base/error.h"
#include "stretto/membership/job.h"
#include "stretto/observe/ledger.h"
#include "stretto/papers/register.h"
#include "stretto/train/distributed_optimizer.h"
#include "stretto/train/recipes/gradient_averaging.h"
#include "stretto/train/recipes/recipes.h"
#include "stretto/train/run_ranks.h"
