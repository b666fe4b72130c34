#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "command/train/rate_watch.h"
#include "command/train/training_options.h"
#include "stretto/train/job/run.h"
#include "stretto/train/job/summary.h"
#include "stretto/train/job/task.h"
#include "stretto/train/options/train_options.h"

namespace stretto::command {

/// Shows a run on standard error: a progress bar on a terminal, else plain lines; and the lines that its ranks tell,
/// each once. `told` holds the lines shown before; it must outlive the run. `predicted`: the rate to show beside the
/// measured one, in batches/s; 0 as long as there is none.
RunHooks watched(const std::string& label, std::set<std::string>& told, std::function<double()> predicted = {});

/// A run, and how fast it was predicted to be.
struct WatchedRun {
  RunSummary summary;
  std::optional<RatePrediction> prediction;  ///< none where there could be none, which a line has said
};

/// run_training() with a RateWatch, whose predictions are simulations of this run (simulate_run()). Throws what that
/// throws, and UsageError for a run that is over before a rate could be compared with that of its first steps.
WatchedRun train_watched(const TrainCommand& command, const TrainingTask& task, const std::string& label);

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
