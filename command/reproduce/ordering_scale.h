#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "command/reproduce/reproductions.h"
#include "stretto/predict/ordering/ordering_calibration.h"
#include "stretto/predict/ordering/ordering_model.h"

namespace stretto::command {

/// A network of the paper (Pumma et al., CCGrid 2020, section V-B), as far as it matters here.
struct OrderedNetwork {
  const char* name;
  double parameters;  ///< as published
  double window;      ///< LIS window: the share of the step in which the input pipeline is active; NaN: not published
  const char* gain;   ///< of TOPO over the coordinator, in the paper, %
};
std::span<const OrderedNetwork> ordered_networks();

/// On which the paper gives its numbers.
inline constexpr int kPaperRanks = 24'576;

/// In the paper, on kPaperRanks; 0 of the coordinator, which the others are compared with.
double paper_gain(OrderingScheme scheme);

/// The paper's step of that network. What the input pipeline does for a batch is the same for all networks, so that
/// the computation is that time over the window. Without a window: the computation of ResNet-50, and no input pipeline.
OrderedJob network_job(const OrderedNetwork& network, int ranks);

/// ResNet-50 with 24,576 samples a step over all ranks (section V-A, Fig. 12).
OrderedJob strong_job(int ranks);

/// All that is predicted of one scheme.
struct ScaleRun {
  std::string experiment;  ///< "weak", "strong", "input 0.24", or a network
  int ranks = 0;
  double samples = 0;  ///< of a rank, in a step
  OrderingScheme scheme = OrderingScheme::coordinator;
  OrderedSteps steps;
};

/// What is predicted, in the order in which it was.
class ScaleRuns {
 public:
  void add(ScaleRun run) { runs_.push_back(std::move(run)); }
  std::span<const ScaleRun> all() const { return runs_; }
  /// Requires: it is there.
  const OrderedSteps& at(const std::string& experiment, int ranks, OrderingScheme scheme) const;
  /// Throughput over the coordinator's, less 1.
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
  int most_ranks = kPaperRanks;
  int steps = 100;
  std::uint64_t seed = 1;
  bool strong = false;
};

/// The paper's numbers of ranks, up to `most`.
std::vector<int> scale_ranks(const ScaleOptions& options);

/// "input 0.24": the weak experiment with another share of input, on the most ranks.
std::string input_experiment(double share);

/// Predicts all: weak (or strong) over the numbers of ranks; on the most ranks, with a fifth of the steps, four amounts
/// of input, and TOPO beside the coordinator for each network. `progress` is told how many runs there were. `seconds`:
/// set to the processor time that the five schemes on the most ranks took.
ScaleRuns predict_scale(const OrderingCosts& costs, const ScaleOptions& options, double& seconds,
                        const std::function<void(std::size_t)>& progress);

/// What was found out about the predictions themselves.
struct ScaleChecks {
  double seconds = 0;      ///< of processor time, for the five schemes on the most ranks
  bool same_bits = false;  ///< a run was repeated with the same seed, and was the same
  double apart = 0;        ///< of steps as predicted and as simulated thread by thread: the largest share of the latter
};

/// Whether each scheme is the same in two runs with that seed.
bool repeats_to_the_bit(const OrderingCosts& costs, std::uint64_t seed);
/// ScaleChecks::apart, on 6, 24 and 96 ranks.
double largest_difference(const OrderingCosts& costs, const ScaleOptions& options);

/// The statements about them. `fitted`: with the paper's calibration, which alone has to be close to the paper's
/// numbers; where it is not, nothing is required.
Judgement judge_scale(const ScaleRuns& runs, const ScaleOptions& options, bool fitted, const ScaleChecks& checks);

}  // namespace stretto::command
