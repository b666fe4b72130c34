#pragma once

#include <memory>

#include "stretto/train/job/task.h"
#include "workloads/dataset.h"

namespace stretto::command {

/// A workload as the trainer sees it: its model, SGD with momentum, and the data that `data` holds.
std::unique_ptr<TrainingTask> workload_task(std::shared_ptr<const Dataset> data);

}  // namespace stretto::command
