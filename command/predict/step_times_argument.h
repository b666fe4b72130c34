#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command/cli/command_line.h"
#include "command/predict/simulated_choice.h"
#include "stretto/base/clock.h"
#include "stretto/predict/measured/step_times.h"

namespace stretto::command {

/// How long the steps of a job take that a command is about: measured in a file or a run, or drawn.
struct StepTimesArgument {
  std::string file;  // empty: drawn
  int ranks = 8;
  Duration compute{0};
  std::string imbalance = "none";
  double noise = 0.01;  // of compute, in the mean
  std::uint64_t seed = 1;
  int steps = 100;      // of each rank
  int replicas = 5;     // as often is a job simulated, each time with other steps
  std::string network;  // of the ranks' hosts
  std::uint64_t model_bytes = 100'000'000;

  /// Adds all of these to `line`; this object must outlive the parsing.
  void add_options(CommandLine& line);
  /// Throws Failure for a file that does not fit, and UsageError where neither a file nor --compute is given, or both.
  StepTimes read() const;
  /// What a replica is simulated with: of what was read so many steps, in blocks that follow one another. Drawn times
  /// are drawn anew.
  StepTimes replica(const StepTimes& all, int number) const;
  std::vector<StepTimes> all_replicas(const StepTimes& all) const;
  SimulatedHosts hosts() const { return {network, model_bytes}; }
};

}  // namespace stretto::command
