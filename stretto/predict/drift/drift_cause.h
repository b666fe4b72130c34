#pragma once

#include "stretto/base/function_ref.h"
#include "stretto/predict/drift/step_window.h"

namespace stretto {

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
  double predicted_round = 0;  ///< RunInputs::round_cost, then and now
  double measured_round = 0;

  /// "compute", "rank" or "rounds".
  const char* name() const;
};

/// The rate, in batches a second, of ranks that are occupied for so long in each step.
using PredictRate = FunctionRef<double(const StepTimes& occupied)>;

/// Asks `predict` what the rate would be if only what ranks compute had changed. Where that is less than half of the
/// way from `predicted` to `measured`, in logarithms, the rounds are the cause. Else it is the ranks' computing: that
/// of one rank if it has changed more than twice as much as the middle one of the others, and if with the times it had
/// before at least half of what computing explains would be gone.
///
/// Requires: as many ranks in both; both rates above 0, and not the same.
DriftCause cause_of_drift(const RunInputs& before, const RunInputs& now, double predicted, double measured,
                          PredictRate predict);

}  // namespace stretto
