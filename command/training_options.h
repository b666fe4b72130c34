#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command/command_line.h"
#include "command/output.h"
#include "stretto/train/options.h"
#include "stretto/train/task.h"
#include "workloads/catalogue.h"

namespace stretto::command {

/// What `stretto train` was asked to do.
struct TrainCommand {
  TrainOptions options;
  Output output;
};

/// What `stretto compare` was asked to do: the same job by several algorithms, with several seeds.
struct CompareCommand {
  TrainOptions options;  ///< `algorithm` is left open
  std::vector<std::string> algorithms;
  int repeats = 3;
  Output output;
};

/// Parse and check what can be checked without Torch and without reading the data. Nothing if help was asked for and
/// has been printed. Throw UsageError.
std::optional<TrainCommand> parse_train(const std::vector<std::string>& arguments);
std::optional<CompareCommand> parse_compare(const std::vector<std::string>& arguments);

/// Throws UsageError where `options` do not fit each other, the machine's folders, or a workload that has data enough.
void check_training(const TrainOptions& options);

}  // namespace stretto::command
