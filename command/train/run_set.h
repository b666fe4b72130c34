#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/train/job/summary.h"
#include "stretto/train/job/task.h"
#include "stretto/train/options/train_options.h"

namespace stretto::command {

/// The runs of one algorithm or setting, one a seed.
struct RunGroup {
  std::string label;
  TrainOptions options;
  std::vector<RunSummary> runs;
};

/// Runs every group `repeats` times: repeat i of each has seed options.seed + i, so the same data and the same delays.
/// Interleaved, with another group first in each repeat, so that changes of the machine meanwhile affect all groups
/// alike. With a folder in the options every run has one of its own inside it. Shows progress. Throws as
/// run_training().
void run_groups(std::vector<RunGroup>& groups, int repeats, const TrainingTask& task);

/// Which group is the `position`-th to run in a repeat.
std::size_t rotated(std::size_t position, int repeat, std::size_t groups);

/// The folder of one run of a group, inside that of the comparison.
std::string run_folder_name(const RunGroup& group, std::uint64_t seed);

/// A folder name: letters, digits, dots, dashes and underscores of `text`; anything else is a dash.
std::string folder_name(const std::string& text);

}  // namespace stretto::command
