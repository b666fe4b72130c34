#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "command/cli/output.h"
#include "command/train/run_set.h"
#include "command/train/training_options.h"
#include "stretto/train/job/task.h"

namespace stretto::command {

// The commands of stretto-train, which return an exit code, and what they share.

int run_train(const TrainCommand& command);
int run_compare(const CompareCommand& command);

/// The data of a workload, read or generated. Throws UsageError, Failure.
std::unique_ptr<TrainingTask> load_task(const std::string& workload, std::uint64_t seed);
/// Table, paired differences, ledger, and the warnings that belong to them.
void say_result(const Output& output, std::span<const RunGroup> groups);
/// The exit code: kFailedRun, and a line on standard error, when a run has broken a promise.
int verdict(std::span<const RunGroup> groups);

}  // namespace stretto::command
