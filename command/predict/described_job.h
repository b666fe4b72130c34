#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command/cli/command_line.h"
#include "stretto/imbalance/spec.h"
#include "stretto/predict/measured/step_times.h"
#include "stretto/predict/model/training_job.h"
#include "stretto/train/options/train_options.h"

namespace stretto::command {

/// The job in a JSON file, or on standard input where `file` is "-". Throws Failure, Errc::bad_input for a file that is
/// not there and for a value that does not fit.
TrainingJob read_job_file(const std::string& file);

/// Describes such files in --help, in a paragraph.
void describe_job_file(CommandLine& line);

/// The one job that a command is about: FILE, and --workers, which asks of one worker's profile how many of them would
/// do.
struct JobArgument {
  std::string file;
  int workers = 0;  // 0: as many as the file says

  /// Adds both to `line`; this object must outlive the parsing.
  void add_options(CommandLine& line);
  /// Throws what read_job_file() throws, and UsageError for --workers where there are several classes.
  TrainingJob read() const;
};

/// Ranks that compute alike: in each step as many seconds as one of `computed`, drawn for it.
struct AlikeRanks {
  int count = 0;
  std::vector<double> computed;
};

/// The workers of a job, class by class in its order. A step takes what its layers take together, with their updates:
/// each rank applies what comes.
std::vector<AlikeRanks> ranks_of(const TrainingJob& job);

int count(const std::vector<AlikeRanks>& ranks);
/// The seconds that a rank computes in a step, in the mean over all ranks.
double mean_step(const std::vector<AlikeRanks>& ranks);

/// Their times, with `imbalance` on top.
StepTimes drawn_step_times(const Imbalance& imbalance, const std::vector<AlikeRanks>& ranks, std::size_t steps,
                           std::uint64_t seed);

/// The layers of its first workers, in an order in which a pass may go through them; times in the mean over the steps
/// that were profiled. Empty: nothing is known of them.
std::vector<ModelLayer> layers_of(const TrainingJob& job);

/// The keys of a job that whole runs do not look at, and that say something else than when they are left out.
std::vector<std::string> unused_keys(const TrainingJob& job);

}  // namespace stretto::command
