#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stretto/base/function_ref.h"
#include "stretto/predict/measured/step_times.h"

namespace stretto {

/// How long the ranks of a run have computed in each of their steps, in some stretch of it.
class StepWindow {
 public:
  explicit StepWindow(int ranks) : steps_(static_cast<std::size_t>(ranks)) {}

  /// Further steps of a rank, in seconds.
  void add(int rank, std::span<const float> steps);
  void clear();

  std::size_t total() const;   ///< steps of all ranks
  std::size_t fewest() const;  ///< of the rank that has the fewest
  /// At most so many steps of each rank. A rank that has made fewer than another one makes them again: where ranks do
  /// not wait for each other, a slow one has fewer in the same time. Requires: fewest() > 0.
  StepTimes times(std::size_t most) const;

 private:
  std::vector<std::vector<float>> steps_;  // of each rank
};

/// Says when a rate that is measured again and again leaves its prediction, and when it is back. It has left once two
/// measurements in a row are more than kLeft off on the same side, and is back once two in a row are within kBack. So
/// one odd measurement says nothing, and a rate that hovers about the limit is told of once. Where two in a row are
/// more than kLeft away from the rate it had when it left, it has left anew, or is back if they are not more than that
/// off the prediction: something else has changed.
class DriftDetector {
 public:
  static constexpr double kLeft = 0.10;  ///< of the prediction
  static constexpr double kBack = 0.05;

  enum class Turn { none, left, back };

  /// Requires: predicted > 0.
  explicit DriftDetector(double predicted) : predicted_(predicted) {}

  /// The next measurement. Measurements follow one another without overlap.
  Turn take(double rate);
  /// Between Turn::left and Turn::back.
  bool drifting() const { return drifting_; }
  double predicted() const { return predicted_; }

 private:
  Turn leave(double rate);
  Turn come_back();
  void forget() { low_ = high_ = near_ = away_ = 0; }

  const double predicted_;
  bool drifting_ = false;
  double level_ = 0;  // the rate when it left
  // Measurements in a row that are too low, too high, near the prediction, and away from the level.
  int low_ = 0, high_ = 0, near_ = 0, away_ = 0;
};

/// The rate, in batches a second over all ranks, of ranks that are occupied for so long in each step.
using PredictRate = FunctionRef<double(const StepTimes& occupied)>;

/// The inputs that a run's rate follows from, besides its algorithm.
struct RunInputs {
  StepTimes computed;  ///< of each rank, without what it waited
  /// Seconds that each step of a rank takes beside computing and waiting for ranks that compute: collectives and the
  /// network below them, waking up, taking and applying results.
  double round_cost = 0;

  StepTimes occupied() const { return computed.longer_by(round_cost); }
};

/// The inputs of a run that was measured to be so fast. `predict` knows of computing and waiting; whatever time is then
/// missing from a step is what a round costs, at least 0. Requires: rate > 0.
RunInputs inputs_of(const StepTimes& computed, double rate, PredictRate predict);

/// Why a run is not as fast as predicted: which of the inputs of the prediction has changed.
struct DriftCause {
  enum class Kind {
    compute,  ///< the step times of the ranks
    rank,     ///< those of one rank
    rounds,   ///< none of these: collectives, the network below them, and what else a step does beside computing
  };

  Kind kind = Kind::rounds;
  int rank = -1;  ///< of Kind::rank
  /// How many times as long the mean step of the ranks, or of that rank, or what a round costs is as predicted.
  double ratio = 1;
  double skew_ratio = 1;       ///< the same of the skew between ranks; of Kind::compute
  bool apart = false;          ///< of Kind::compute: the skew has changed by more seconds than the mean step
  double predicted_round = 0;  ///< of Kind::rounds: RunInputs::round_cost of the prediction
  double measured_round = 0;   ///< and now

  /// "compute", "rank" or "rounds".
  const char* name() const;
};

/// Asks `predict` what the rate would be if only what ranks compute had changed. Where that is less than half of the
/// way from `predicted` to `measured`, in logarithms, the rounds are the cause. Else it is the ranks' computing: that
/// of one rank if it has changed more than twice as much as the middle one of the others, and if with the times it had
/// before at least half of what computing explains would be gone.
///
/// `predicted` is the rate of `before`; `now`: what ranks have computed while `measured` was. Requires: as many ranks
/// in both; both rates above 0, and not the same.
DriftCause cause_of_drift(const RunInputs& before, const StepTimes& now, double predicted, double measured,
                          PredictRate predict);

}  // namespace stretto
