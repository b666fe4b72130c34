#pragma once

/// \file
/// Stretto for those who write their own training loop with LibTorch: start ranks with run_job(), or run_as_launched()
/// under mpirun, and wrap the optimizer in a DistributedOptimizer. Needs no Torch header itself.
/// What the parts consist of is one header each: stretto/collective/plain.h for broadcast, allgather and allreduce,
/// stretto/collective/partial_allreduce.h for the collective that does not wait, stretto/train/recipe.h for an
/// algorithm of your own.

#include "stretto/base/error.h"
#include "stretto/membership/job.h"
#include "stretto/observe/ledger.h"
#include "stretto/train/distributed_optimizer.h"
#include "stretto/train/recipes.h"
