#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "stretto/ordering/orderer/graph.h"
#include "stretto/train/job/task.h"
#include "stretto/train/profile/training_profile.h"
#include "workloads/dataset.h"

namespace stretto::command {

/// A workload as the trainer sees it: its model, SGD with momentum, and the data that `data` holds.
std::unique_ptr<TrainingTask> workload_task(std::shared_ptr<const Dataset> data);

/// One worker of a job that trains a workload.
struct WorkloadWorker {
  std::shared_ptr<const Dataset> data;
  int batch = 1;
  std::uint64_t seed = 1;  ///< of its model and its batches
};

/// Trains the workload on this worker's batches, as stretto train does, and measures it (profile_training()).
TrainingProfile profile_workload(const WorkloadWorker& worker, const ProfileOptions& options);

/// profiling_cost() of the same.
std::vector<double> profiling_cost(const WorkloadWorker& worker, int pairs, int steps);

/// The executed graph of a workload's `step`-th training step, from 1, on one rank, over batches of its first `batch`
/// samples. The steps before it are executed, too, but move no weights.
ExecutedGraph executed_graph(const std::shared_ptr<const Dataset>& data, int batch, std::uint64_t seed, int step);

}  // namespace stretto::command
