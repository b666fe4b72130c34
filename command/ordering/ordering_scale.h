#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "command/reproduce/reproductions.h"
#include "stretto/papers/ordering/scale/ordering_calibration.h"
#include "stretto/papers/ordering/scale/ordering_model.h"

namespace stretto::command {

/// A network of the paper (Pumma et al., CCGrid 2020, section V-B), as far as it matters here.
struct OrderedNetwork {
  const char* name;   ///< as the paper calls it
  double parameters;  ///< as published
  double window;      ///< LIS window: the share of the step in which the input pipeline is active; NaN: not published
  const char* gain;   ///< of TOPO over the coordinator, in the paper, %
};
/// The networks for which the paper gives the gain of TOPO.
std::span<const OrderedNetwork> ordered_networks();

/// The number of ranks on which the paper gives its numbers.
inline constexpr int kPaperRanks = 24'576;

/// The gain over the coordinator that the paper gives for a scheme on kPaperRanks; 0 for the coordinator itself.
double paper_gain(OrderingScheme scheme);

/// The paper's step of that network. What the input pipeline does for a batch is the same for all networks, so that
/// the computation is that time over the window. Without a window: the computation of ResNet-50, and no input pipeline.
OrderedJob network_job(const OrderedNetwork& network, int ranks);

/// The step of ResNet-50 whose 24,576 samples are shared by all ranks (section V-A, Fig. 12).
OrderedJob strong_job(int ranks);

/// The predicted cost of one scheme in one experiment, on one number of ranks.
struct ScaleRun {
  std::string experiment;  ///< "weak", "strong", "input 0.24", or a network
  int ranks = 0;
  double samples = 0;  ///< of a rank, in a step
  OrderingScheme scheme = OrderingScheme::coordinator;
  OrderedSteps steps;
};

/// All predictions, in the order in which they were made.
class ScaleRuns {
 public:
  void add(ScaleRun run) { runs_.push_back(std::move(run)); }
  std::span<const ScaleRun> all() const { return runs_; }
  /// The steps of one prediction. Requires: it was made.
  const OrderedSteps& at(const std::string& experiment, int ranks, OrderingScheme scheme) const;
  /// The throughput of a scheme over that of the coordinator, less 1. Requires: both were predicted.
  double gain(const std::string& experiment, int ranks, OrderingScheme scheme) const;
  /// The numbers of ranks of an experiment, ascending.
  std::vector<int> ranks_of(const std::string& experiment) const;
  /// A line for each run: experiment, ranks, scheme, samples a rank, seconds of the step and its parts, samples a
  /// second.
  std::string csv() const;

 private:
  std::vector<ScaleRun> runs_;
};

struct ScaleOptions {
  int most_ranks = kPaperRanks;  ///< the largest number of ranks
  int steps = 100;               ///< that each prediction simulates; more are slower and vary less
  std::uint64_t seed = 1;        ///< of all that is drawn
  bool strong = false;           ///< the samples of a step are shared by the ranks; else each rank has its own 32
};

/// The paper's numbers of ranks, up to `most`.
std::vector<int> scale_ranks(const ScaleOptions& options);

/// The name of an experiment, "input 0.24": the weak one with another share of input, on the most ranks.
std::string input_experiment(double share);

/// Makes all predictions: the weak (or strong) experiment on each number of ranks; on the most ranks, with a fifth of
/// the steps, the weak one with four amounts of input, and TOPO beside the coordinator for each network. `progress` is
/// told how many predictions there are so far. `seconds` becomes the processor time that the five schemes took on the
/// most ranks.
ScaleRuns predict_scale(const OrderingCosts& costs, const ScaleOptions& options, double& seconds,
                        const std::function<void(std::size_t)>& progress);

/// How the predictions themselves were checked, and what was found.
struct ScaleChecks {
  double seconds = 0;      ///< processor time that the five schemes took on the most ranks
  bool same_bits = false;  ///< a prediction that was repeated with the same seed was the same
  /// The largest difference between a step as predicted and as simulated thread by thread, as a share of the latter.
  double apart = 0;
};

/// Whether two predictions of each scheme with that seed are the same.
bool repeats_to_the_bit(const OrderingCosts& costs, std::uint64_t seed);
/// ScaleChecks::apart, on 6, 24 and 96 ranks.
double largest_difference(const OrderingCosts& costs, const ScaleOptions& options);

/// Judges whether the predictions fulfil what is required of them. `fitted`: they were made with the paper's
/// calibration, which alone has to be close to the paper's numbers; else nothing is required of them.
Judgement judge_scale(const ScaleRuns& runs, const ScaleOptions& options, bool fitted, const ScaleChecks& checks);

}  // namespace stretto::command
