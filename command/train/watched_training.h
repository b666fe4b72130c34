#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "command/train/rate_watch.h"
#include "command/train/training_options.h"
#include "stretto/train/job/run.h"
#include "stretto/train/job/summary.h"
#include "stretto/train/job/task.h"

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

}  // namespace stretto::command
