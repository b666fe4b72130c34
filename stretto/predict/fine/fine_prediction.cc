#include "stretto/predict/fine/fine_prediction.h"

#include <utility>

namespace stretto {

FinePrediction predict_fine(const TrainingJob& job, StepSimulationOptions options) {
  FinePrediction prediction;
  const bool both = !job.link && job.mode == Coordination::synchronous;
  if (both || job.link != LinkSharing::in_order) {
    options.sharing = LinkSharing::equal_shares;
    prediction.equal_shares = simulate_steps(job, options);
    options.on_operation = {};
  }
  if (both || job.link == LinkSharing::in_order) {
    options.sharing = LinkSharing::in_order;
    prediction.in_order = simulate_steps(job, options);
  }
  int simulations = 0;
  for (const auto* simulated : {&prediction.equal_shares, &prediction.in_order}) {
    if (!*simulated) continue;
    ++simulations;
    prediction.steps_per_s += (*simulated)->steps_per_s;
    prediction.examples_per_s += (*simulated)->examples_per_s;
  }
  prediction.steps_per_s /= simulations;
  prediction.examples_per_s /= simulations;
  return prediction;
}

}  // namespace stretto
