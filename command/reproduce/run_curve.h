#pragma once

#include <optional>

#include "stretto/train/job/summary.h"

namespace stretto::command {

/// Numbers read off the evaluations that a run has made meanwhile, the one of the model at its end included.

/// The training loss so many seconds after the start: on the line between the evaluations before and after. That of the
/// first evaluation before it, of the last one after it. Requires: a training loss at the end.
double train_loss_at(const RunSummary& run, double seconds);

/// When the accuracy on test data has first been `accuracy` or more, on the line from the evaluation before; nothing
/// where it never was.
std::optional<double> seconds_to_accuracy(const RunSummary& run, double accuracy);

}  // namespace stretto::command
