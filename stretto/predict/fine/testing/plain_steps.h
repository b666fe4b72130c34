#pragma once

#include <vector>

#include "stretto/predict/model/training_job.h"

namespace stretto {

/// When the steps of each worker end, by Algorithm 1 of Li et al. with the repairs of docs/lab/prediction.md, written
/// down line by line: a list of operations, all of which advance until the first is over. It takes time that grows with
/// the square of the number of workers, and stands beside simulate_steps() as its judge. Of one server with one network
/// card, and hosts of one GPU.
std::vector<std::vector<double>> plain_step_ends(const TrainingJob& job, LinkSharing sharing);

}  // namespace stretto
