#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "command/output.h"
#include "command/run_set.h"
#include "command/subcommand.h"
#include "stretto/train/task.h"

namespace stretto::command {

// The subcommands of stretto-train. Each takes what its namesake of `stretto` takes.
int run_train(const Arguments& arguments);
int run_compare(const Arguments& arguments);
int run_training_reproduction(const Arguments& arguments);

// What they have in common.

/// The data of a workload, read or generated. Throws UsageError, Failure.
std::unique_ptr<TrainingTask> load_task(const std::string& workload, std::uint64_t seed);
/// Table, paired differences, ledger, and what they must not be read without.
void say_result(const Output& output, std::span<const RunGroup> groups);
/// The exit code: kFailedRun, and a line on standard error, when a run has broken a promise.
int verdict(std::span<const RunGroup> groups);

}  // namespace stretto::command
