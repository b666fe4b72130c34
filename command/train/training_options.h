#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "command/cli/output.h"
#include "command/cli/subcommand.h"
#include "command/run/program_ranks.h"
#include "stretto/train/job/task.h"
#include "stretto/train/options/train_options.h"
#include "workloads/catalogue.h"

namespace stretto::command {

/// The options of `stretto train`.
struct TrainCommand {
  TrainOptions options;
  std::uint64_t predict_from = 0;  ///< --predict: from so many first steps of each rank; 0: no prediction
  /// How ranks are started on hosts, or so that others may come to them, as far as options say so.
  ProgramRanks members;
  bool gives_ranks = false;  ///< --ranks was given
  Output output;

  /// Whether ranks are started on hosts that are named, by this process.
  bool starts_hosts() const;
  /// Whether the ranks are processes of their own, to which others may come, and this one starts them.
  bool starts_members() const;
};

/// The options of `stretto compare`: the same job by several algorithms, with several seeds.
struct CompareCommand {
  TrainOptions options;  ///< `algorithm` is left open
  std::string list = "sync,eager-quorum,eager-solo";
  std::vector<std::string> algorithms;  ///< those of `list`
  int repeats = 3;
  Output output;
};

/// `stretto train` and `stretto compare`. `run` gets their options, which have been checked as far as possible without
/// Torch and without reading the data; it returns an exit code.
Subcommand train_command(std::function<int(const TrainCommand&)> run);
Subcommand compare_command(std::function<int(const CompareCommand&)> run);

/// The exit code of a command for the end of the ranks that it has started as programs.
int code_of(const EndOfPrograms& end);

/// Throws UsageError for an option that was given and has an effect under none of the algorithms.
void require_effect(const TrainOptions& options, std::span<const std::string> algorithms);

/// Throws UsageError where `options` do not fit each other, the machine's folders, or a workload that has data enough.
void check_training(const TrainOptions& options);
/// Throws UsageError where the rate of such a run cannot be predicted while it goes on.
void check_prediction(const TrainOptions& options);

}  // namespace stretto::command
