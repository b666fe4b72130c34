#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command/cli/output.h"
#include "command/cli/subcommand.h"
#include "command/train/run_set.h"

namespace stretto::command {

/// The options of `stretto reproduce NAME`, for those that train.
struct ReproduceCommand {
  std::string name;
  int ranks = 8;
  int repeats = 1;
  std::uint64_t seed = 1;
  std::uint64_t steps = 0;
  std::uint64_t epochs = 0;
  Duration pace{0};
  double scale = 1;
  std::string out;
  Output output;
};

struct Experiment;

/// A statement of a paper beside what has been measured here.
struct Statement {
  std::string text;
  std::string paper;  ///< its number
  std::string here;
  bool holds = true;
};

/// The judgement on statements, by the runs of an experiment.
struct Judgement {
  std::string text;
  bool holds = true;                  ///< of what is required here, which may be less than all statements
  std::vector<Statement> statements;  ///< each of them, also where `text` shows them
};

/// A line for each statement, with pass or FAIL.
std::string statements_table(std::span<const Statement> statements);

/// Groups that are compared with each other under the same delays, and the results expected of them.
struct Experiment {
  std::string title;
  std::vector<RunGroup> groups;     ///< the others are compared with the first one
  std::vector<std::string> expect;  ///< a line for each group: the number of the paper or of the arithmetic
  /// Called when all has been run; where it does not hold the command fails. Null: the reader judges.
  Judgement (*judge)(const Experiment& finished) = nullptr;
};

/// The group of that label. Requires: there is one.
const RunGroup& labelled(const Experiment& experiment, std::string_view label);

/// A measurement that trains, as data: its runs and their texts. Knows no Torch.
struct Reproduction {
  const char* name;
  const char* summary;
  const char* introduction;  ///< the first sentence of --help
  std::string workload;
  ReproduceCommand defaults;
  /// With `--out` each experiment has a folder of its own, in which the runs of all its groups lie.
  std::vector<Experiment> (*experiments)(const ReproduceCommand& command);
  /// Judges the experiments together, called when all have been run. Null: nothing beyond what each says.
  Judgement (*judge)(std::span<const Experiment> finished) = nullptr;
  bool records = false;  ///< it is judged by the records of its runs, which lie somewhere also without `--out`
};

std::span<const Reproduction> training_reproductions();

/// The options of all runs of an experiment, by those of the command.
TrainOptions base_options(const ReproduceCommand& command, const std::string& workload);

/// A number that is not there.
inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// An algorithm as a paper ran it: a row of a table.
struct AlgorithmRow {
  std::string_view label;
  std::string algorithm;
  std::uint64_t sync_every;  ///< 0: the default
  AlgorithmOptions options;
  double paper;  ///< what is compared: its number in the paper, or another's over it; kNone: it is not there
};
/// The runs of a row, which are otherwise as `options` say.
RunGroup group_of(const AlgorithmRow& row, TrainOptions options);

/// Returns an exit code.
using RunReproduction = std::function<int(const Reproduction& reproduction, const ReproduceCommand& command)>;

/// `stretto reproduce NAME`. `run` gets options that have been checked as far as possible without Torch and without
/// reading the data. `reproduction` must outlive the command.
Subcommand reproduction_command(const Reproduction& reproduction, const RunReproduction& run);

/// `stretto reproduce`: the commands of `others`, and the reproductions that train.
Subcommand reproduce_command(std::vector<Subcommand> others, const RunReproduction& run);

/// Speed-up over sync, in batches applied, when each step one of `ranks` ranks is `delay` late on top of `step`:
/// (T + d) / (T + d/P).
double ideal_of_random_delay(double step, double delay, int ranks);

/// Of stretto-train: trains, and prints the results beside those expected. Returns an exit code.
int run_reproduction(const Reproduction& reproduction, const ReproduceCommand& command);

}  // namespace stretto::command
