#pragma once

#include <string>
#include <vector>

#include "command/reproduce/reproductions.h"

namespace stretto::command {

/// `stretto reproduce virtual-time`: the same jobs live and simulated, on half as many ranks and on all. The groups of
/// an experiment are pairs: an algorithm live, then the same in virtual time.
std::vector<Experiment> virtual_time_experiments(const ReproduceCommand& command);

/// Compares the runs of such an experiment, and judges whether virtual time predicts real time: batches a second to 3
/// %, rounds per batch to 5 %, the mean staleness to 5 % or 0.03, by the means over all runs.
Judgement judge_virtual_time(const Experiment& finished);

}  // namespace stretto::command
