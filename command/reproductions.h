#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "command/output.h"
#include "command/run_set.h"

namespace stretto::command {

/// What `stretto reproduce NAME` was asked to do, for those that train.
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

/// Groups that are compared with each other under the same delays, and what is known about them beforehand.
struct Experiment {
  std::string title;
  std::vector<RunGroup> groups;     ///< the first one is what the others are compared with
  std::vector<std::string> expect;  ///< a line for each group: what the paper or the arithmetic says
};

/// A measurement that trains: what is run, as data. Knows no Torch.
struct Reproduction {
  const char* name;
  const char* summary;
  const char* introduction;  ///< the first sentence of --help
  std::string workload;
  ReproduceCommand defaults;
  std::vector<Experiment> (*experiments)(const ReproduceCommand& command);
};

std::span<const Reproduction> training_reproductions();

/// Nothing if help was asked for and has been printed. Throws UsageError.
std::optional<ReproduceCommand> parse_reproduction(const Reproduction& reproduction,
                                                   const std::vector<std::string>& arguments);

/// Speed-up over sync, in batches applied, when each step one of `ranks` ranks is `delay` late on top of `step`:
/// (T + d) / (T + d/P).
double ideal_of_random_delay(double step, double delay, int ranks);

}  // namespace stretto::command
