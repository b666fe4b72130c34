#pragma once

#include "stretto/base/function_ref.h"
#include "stretto/predict/measured/step_times.h"

namespace stretto {

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
