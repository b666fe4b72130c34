#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "command/cli/command_line.h"
#include "command/predict/described_job.h"
#include "command/predict/simulated_choice.h"
#include "stretto/base/clock.h"
#include "stretto/predict/measured/step_times.h"

namespace stretto::command {

/// The step times that a job is simulated with, and the hosts of its ranks.
class StepTimesSource {
 public:
  /// The step times that were measured; or, where they are drawn, those of the first replica.
  const StepTimes& all() const { return all_; }
  const SimulatedHosts& hosts() const { return hosts_; }
  /// The step times that a replica is simulated with: of what was measured so many steps, in blocks of steps that
  /// follow one another: ten, or as many as there are such blocks side by side. Drawn times are drawn anew.
  StepTimes replica(int number) const { return draw_(number); }
  std::vector<StepTimes> replicas() const;
  /// Notes on what the file says in vain, or does not say, a sentence each: to be printed where the command succeeds.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  friend struct StepTimesArgument;
  StepTimesSource(StepTimes all, std::function<StepTimes(int)> draw, SimulatedHosts hosts, int count)
      : all_(std::move(all)), draw_(std::move(draw)), hosts_(std::move(hosts)), count_(count) {}

  StepTimes all_;
  std::function<StepTimes(int)> draw_;
  SimulatedHosts hosts_;
  int count_;  // of replicas
  std::vector<std::string> notes_{};
};

/// read_step_times(), which shows on a terminal how far it is. Throws Failure for a file that does not fit.
StepTimes read_measured_times(const std::string& file);

/// How long the steps of a job take that a command is about: measured in a file or a run, or drawn, around one time or
/// around those of a profile.
struct StepTimesArgument {
  std::string file;  // empty: drawn; "-": standard input
  int ranks = 0;     // 0: not said
  Duration compute{0};
  std::string imbalance = "none";
  double noise = 0.01;  // of what a step computes, in the mean
  std::uint64_t seed = 1;
  int steps = 100;                // of each rank
  int replicas = 5;               // as often is a job simulated, each time with other steps
  std::string network;            // of the ranks' hosts
  std::uint64_t model_bytes = 0;  // 0: not said

  /// Adds all of these to `line`; this object must outlive the parsing.
  void add_options(CommandLine& line);
  /// Throws Failure for a file that does not fit; UsageError where neither a file nor --compute is given, or both, and
  /// for --imbalance beside a file that says who was slow. Shows how far it is on a terminal.
  StepTimesSource read() const;

 private:
  StepTimesSource drawn_by_options() const;
  StepTimesSource of_file() const;
  StepTimesSource measured() const;
  /// A note on the use made of the exchanges of a trace, and on what is assumed where nothing says what messages take.
  std::string exchange_note(const StepTimes& all, const std::string& like) const;
  std::string assumption_note() const;
  /// Throws UsageError for what cannot be simulated.
  StepTimesSource checked(StepTimesSource source) const;
  /// The workers of a job; of one class as many as --ranks asks for.
  std::vector<AlikeRanks> asked_of(const TrainingJob& job) const;
  StepTimesSource drawn(const std::vector<AlikeRanks>& ranks, const SimulatedHosts& known) const;
  /// The hosts by --network and --model-bytes, and where these say nothing, as `known` of the job.
  SimulatedHosts hosts_like(const SimulatedHosts& known) const;
};

}  // namespace stretto::command
