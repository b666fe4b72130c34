#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {

/// One layer of a model, as one worker runs it in one step.
struct Layer {
  std::string name;     ///< another one for each layer of a step
  double bytes = 0;     ///< of its parameters, and of their gradients
  double forward = 0;   ///< seconds on the worker
  double backward = 0;  ///< seconds on the worker
  double update = 0;    ///< seconds on the server, for the gradients of one worker
  /// The layers whose outputs this one reads, by their index in the step, ascending; all of them stand before it.
  std::vector<int> after;
};

/// The layers of one step that was measured, sorted so that each stands behind those it reads from.
using ProfiledStep = std::vector<Layer>;

/// Workers that are alike.
struct WorkerClass {
  int count = 1;        ///< how many there are
  double batch = 0;     ///< L, examples in a step
  double forward = 0;   ///< F, seconds of a whole forward pass, the mean over the steps profiled
  double backward = 0;  ///< B, seconds of a whole backward pass, likewise
  double update = 0;    ///< s, seconds in which the server applies the gradients of one step of one such worker
  /// One or more with the same layers and other times; empty where nothing is known of the layers.
  std::vector<ProfiledStep> steps;
};

/// A run that has been measured.
struct MeasuredRate {
  std::vector<int> counts;      ///< workers of each class of the job; at least one in all
  double steps_per_second = 0;  ///< of all of them, trained asynchronously
};

/// How the transfers that a link carries at once share it.
enum class LinkSharing {
  equal_shares,  ///< processor sharing, "ps": each of n has 1/n of the bandwidth
  in_order,      ///< first come, first served, "fcfs": the first has all of it
};

/// "ps", "fcfs".
const char* name_of(LinkSharing sharing);

/// When a worker's next step begins, and by what way gradients travel.
enum class Coordination {
  asynchronous,  ///< "async": a server; each worker goes on as soon as its own gradients are applied
  synchronous,   ///< "sync": a server; all go on when the gradients of all are applied
  allreduce,     ///< "allreduce": a ring without a server; all go on together
};

/// "async", "sync", "allreduce".
const char* name_of(Coordination mode);

/// A job of data-parallel training whose throughput is to be predicted. The symbols are those of Li et al., "Predicting
/// Throughput of Distributed Stochastic Gradient Descent" (IEEE TPDS 2022). Units: bytes, seconds, bytes per second.
struct TrainingJob {
  double model_bytes = 0;            ///< M, which each worker receives and sends in each step
  double bandwidth = 0;              ///< B, bytes per second of each link of a server, downlink and uplink alike
  double rho_threshold = 0.5;        ///< ρ_T: links that are utilized more than this are shared equally, else in order
  int servers = 1;                   ///< each holds 1/servers of the model, on links of its own
  std::vector<WorkerClass> classes;  ///< at least one

  /// Inputs of the simulation operation by operation, which formulas do not look at.
  std::optional<LinkSharing> link;                 ///< none: what suits the mode (predict_fine())
  Coordination mode = Coordination::asynchronous;  ///< when steps begin, and by what way gradients travel
  bool overlap = true;             ///< layers travel while others are computed; false: one phase after the other
  int steps = 1000;                ///< of each worker
  std::optional<double> flow_cap;  ///< bytes per second that one transfer gets at most
  int gpus_per_host = 1;           ///< workers that send and receive as one
  int nics = 1;                    ///< network cards, each with links of this bandwidth

  std::vector<MeasuredRate> measured;  ///< what the threshold ρ_T is fitted to

  /// Notes on input that is inconsistent without being wrong, and what was made of it; each a sentence.
  std::vector<std::string> notes;

  /// K, over all classes.
  std::int64_t workers() const;
};

/// Reads a job from JSON; docs/prediction.md has the schema. Totals that are not said are those of the layers.
/// Errc::bad_input names `source` (a file), the value, and what was expected instead of it.
Result<TrainingJob> read_job(std::string_view json, const std::string& source);

/// The layers in an order in which each stands behind those it reads from, otherwise as before. In `layers` the indices
/// in `after` may name any layer. Errc::bad_input says which layers read from each other in a circle.
/// Requires: indices are those of layers.
Result<ProfiledStep> in_topological_order(std::vector<Layer> layers);

}  // namespace stretto
