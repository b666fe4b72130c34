#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "stretto/predict/fine/step_graph.h"
#include "stretto/predict/model/training_job.h"

namespace stretto {

/// An operation of a simulated step, as it ran.
struct SimulatedOperation {
  int host;  ///< the worker, where each host has one GPU
  int worker_class;
  int step;  ///< of this host, from 0
  OperationKind kind;
  int layer;  ///< in the host's class, as it is in WorkerClass::steps
  int gpu;
  double begin;  ///< seconds from the start of the job; of a transfer: when it asked for the link
  double end;
};

/// How the steps of a job are simulated, beside what the job says itself.
struct StepSimulationOptions {
  LinkSharing sharing = LinkSharing::equal_shares;
  std::uint64_t seed = 1;      ///< of the profiled steps that are drawn
  double message_latency = 0;  ///< seconds between the end of a transfer at its link and what waits for it
  bool buckets = false;        ///< StepRules::buckets
  bool server_shared = false;  ///< updates share the server's processor equally, instead of one each
  std::function<void(const SimulatedOperation&)> on_operation = {};  ///< called for each that is over, if set
};

/// The result of a simulation, without the first tenth of the steps and up to the first host that was done.
struct SimulatedSteps {
  double steps_per_s = 0;                      ///< of all workers together
  std::vector<double> class_steps_per_s = {};  ///< of one worker of each class
  double examples_per_s = 0;
  std::vector<double> step_seconds = {};  ///< of every step of every host (synchronous: of every step), ascending
  std::uint64_t operations = 0;           ///< that were simulated, the first tenth among them
};

/// Simulates the steps of all workers operation by operation: Algorithm 1 of Li et al. (2.2.2), as
/// docs/lab/prediction.md says it was corrected. Repeats to the bit for the same job and options. Throws UsageError
/// where a step takes no time, and as plan_hosts() does.
SimulatedSteps simulate_steps(const TrainingJob& job, const StepSimulationOptions& options);

/// A part of a simulation, in seconds.
struct Window {
  double begin;
  double end;
};

/// The part of a job that counts, in which all workers work: the last nine tenths of the first worker to be done, which
/// ended its steps at `ends`, its start before them.
Window measured_window(std::span<const double> ends);

/// Steps per second of a worker whose steps ended at `ends`, ascending, its start before them: over the steps that lie
/// wholly in the window, so that it does not matter where in a step the window begins. Infinite where they took no
/// time.
double steady_rate(std::span<const double> ends, const Window& window);

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
