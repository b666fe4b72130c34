#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stretto/predict/measured/step_times.h"
#include "stretto/predict/shape/algorithm_shape.h"
#include "stretto/train/options/train_options.h"

namespace stretto::command {

/// A way to train that is tried in virtual time.
struct Choice {
  std::string algorithm;         ///< as --algorithm takes it: "eager-quorum:4"
  std::uint64_t sync_every = 0;  ///< --sync-every; 0: the algorithm's default
  using Option = std::pair<std::string, std::string>;
  std::vector<Option> options{};  ///< of the algorithm alone: {"tau", "20"}
  std::string data{};             ///< --data; empty: the algorithm's default

  /// "local, H = 16", "wagma:4, tau = 20": parse_choices() reads it.
  std::string name() const;
};

/// The outcome of a choice that was run.
struct Outcome {
  double rate = 0;            ///< batches applied a second, over all ranks
  double ideal = 0;           ///< StepTimes::ideal_rate() of as many steps
  double fresh_share = 0;     ///< of the contributions; NaN where the algorithm has none
  double staleness_mean = 0;  ///< of batches, in rounds
  std::uint64_t staleness_max = 0;
  double wait_share = 0;      ///< of the ranks' time
  std::vector<double> steps;  ///< seconds from the begin of each step of a rank to that of its next, all ranks
  double round_batches = 0;   ///< that a round applies, in the mean
  /// Batches that had been computed when a batch was applied, and were not in the weights it was computed on, in the
  /// mean; NaN: not known.
  double unseen = std::numeric_limits<double>::quiet_NaN();
};

/// The hosts of the ranks.
struct SimulatedHosts {
  std::string network;            ///< as --network has it
  std::uint64_t model_bytes = 0;  ///< of the model
  /// Of the model, in the order of the forward pass: what is pushed and read layer by layer. Empty: not known.
  std::vector<ModelLayer> layers{};

  /// That training makes of the model, of which servers share out whole ones; at most kMostModelBuckets.
  int buckets() const;
};

/// Throws UsageError where a simulation of so many steps could last longer than a virtual clock goes, a step longer
/// than its file says, or where the model is so large that its messages could not be counted.
void require_virtual_time(const StepTimes& times, const SimulatedHosts& hosts, std::uint64_t steps);

/// Runs the algorithm itself, its collectives and its rules for late ranks, on a virtual clock, with ranks that compute
/// as long as `times` says and nothing else. `steps` × ranks batches in all; 0: as many steps as there are times. Files
/// of its own are in the folder `within` meanwhile. Throws UsageError for a choice that does not fit so many ranks.
Outcome simulate(const Choice& choice, const StepTimes& times, const SimulatedHosts& hosts, std::uint64_t seed,
                 std::uint64_t steps = 0, const std::filesystem::path& within = std::filesystem::temp_directory_path());
/// The same of a run as its options describe it: all that says how it averages and who gets which batch is kept.
Outcome simulate_run(const TrainOptions& run, const StepTimes& times, const SimulatedHosts& hosts, std::uint64_t steps,
                     const std::filesystem::path& within);
/// Throws UsageError where it could not be simulated.
void require_simulation(const TrainOptions& run);

/// Outcome::steps of any run, from its records. Throws Failure for a folder of none, or of other records.
std::vector<double> recorded_steps(const std::string& folder, int ranks);

/// A choice as simulate_shape() takes it.
struct ShapedChoice {
  AlgorithmShape shape;
  bool shared_data = false;
};
/// None: its algorithm says no shape with these options, and simulate() alone can say what comes of it. Throws
/// UsageError for a choice that does not fit so many ranks.
std::optional<ShapedChoice> shape_of(const Choice& choice, int ranks);

/// `steps`, or as many more as the last period of the choice wants: H, or τ. A run that ends within one has an average
/// more at its end than a long run has, which costs short runs a fifth and more. Groups go on after the last step until
/// a round is full: so they end one step before it. Where a period is longer than kLongestRun it stays `steps`. Throws
/// UsageError for a choice that does not fit so many ranks.
inline constexpr std::uint64_t kLongestRun = 10'000;
std::uint64_t whole_periods(const Choice& choice, int ranks, std::uint64_t steps);

/// Outcome::unseen of ranks that train in this shape, of batches that are so stale and of which a round takes so many,
/// both in the mean. What a round adds to a batch's staleness are all its batches; a version of weights on servers is
/// one batch. Own steps between two exchanges see none of those that other ranks make meanwhile. Not known of groups,
/// whose models spread from one to the other.
double unseen_batches(const AlgorithmShape& shape, int ranks, double staleness, double round_batches);

/// The choices of a list as it is typed: "sync,eager-quorum:4,local, H = 16". A part with an equals sign is a setting
/// of the algorithm before it: H, or one of the algorithm's own options. Throws UsageError for one that there is not,
/// or is twice.
std::vector<Choice> parse_choices(std::string_view option, const std::string& list);

/// The hosts of a run that has been, as its folder tells. Ranks of real processes share the memory of a host, where
/// messages take next to no time; those of a simulated run had its network, and a model as large as it says. Throws
/// Failure for a folder without the config.json of a run.
SimulatedHosts hosts_of_run(const std::string& folder);

}  // namespace stretto::command
