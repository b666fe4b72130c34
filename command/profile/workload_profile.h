#pragma once

#include <memory>
#include <vector>

#include "stretto/train/profile/training_profile.h"
#include "workloads/dataset.h"

namespace stretto::command {

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

}  // namespace stretto::command
