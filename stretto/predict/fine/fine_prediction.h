#pragma once

#include <optional>

#include "stretto/predict/fine/step_simulation.h"
#include "stretto/predict/model/training_job.h"

namespace stretto {

/// The prediction that the simulation of a job's steps makes.
struct FinePrediction {
  std::optional<SimulatedSteps> equal_shares;  ///< where links were simulated so; an allreduce, which shares none, too
  std::optional<SimulatedSteps> in_order;
  double steps_per_s = 0;  ///< of all workers together: of the one simulation, or the mean of both
  double examples_per_s = 0;

  /// The simulation that was made, or that of equal shares.
  const SimulatedSteps& shown() const { return equal_shares ? *equal_shares : *in_order; }
};

/// Simulates the job with the sharing that it says. Where it says none: an asynchronous job with equal shares (Li et
/// al., 2.2), a synchronous one with both, of which the prediction is the mean of the throughputs (3.2.1).
/// `options.sharing` is not looked at; `options.on_operation` is called by the first simulation. Throws as
/// simulate_steps() does.
FinePrediction predict_fine(const TrainingJob& job, StepSimulationOptions options);

}  // namespace stretto
