#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/engine/driver.h"
#include "stretto/train/recipes/options/algorithm_options.h"

namespace stretto {

/// The divisor of the sum of a round's gradients.
enum class Normalize {
  ranks,         ///< number of ranks, as in the papers
  contributors,  ///< ranks that brought something
  samples,       ///< samples behind the sum: unequal batches are unbiased
};

/// Whether the rank's other optimizers go on where it ends one.
enum class Others {
  end,    ///< the rank has no more batches for them, either
  go_on,  ///< it has, and every rank ends this one after as many steps of them
};

/// \cond inner
/// The largest TrainOptions::model_buckets.
inline constexpr int kMostModelBuckets = 32;

/// A layer of a model of which nothing is computed: how its parts compare to those of the other layers.
struct ModelLayer {
  double bytes = 0;     ///< of its parameters
  double forward = 0;   ///< what it takes in the forward pass
  double backward = 0;  ///< the same in the backward pass, in the same unit
};

/// Everything that defines a training run, as `stretto train` takes it. No Torch here.
struct TrainOptions {
  std::string workload = "vowels";
  /// A name from the table of recipes (train/recipes/recipes.h), with ":2" for its quorum.
  std::string algorithm = "sync";
  int ranks = 4;
  int least = 0;                         ///< JobOptions::least: with so many of them the job goes on; 0: all are needed
  std::uint64_t steps = 0;               ///< steps × ranks batches in all; 0: `epochs` says
  std::uint64_t epochs = 0;              ///< passes over the training data in all; 0: the workload's default
  int batch = 0;                         ///< samples a batch and rank; 0: the workload's default
  double lr = 0;                         ///< 0: the workload's default
  std::string lr_schedule = "constant";  ///< by batches applied: train/recipes/options/lr_schedule.h
  double momentum = -1;                  ///< negative: the workload's default
  std::string imbalance = "none";        ///< imbalance/spec.h
  Duration pace{0};                      ///< a step takes at least this long per unit of work of its batch
  std::string data;                      ///< shared, partitioned, ring, sampled, labels:3; empty: the recipe's default
  std::uint64_t seed = 1;
  int max_lag = 4;
  int seats = 0;   ///< PartialOptions::seats: ranks per board in shared memory; 0: all at one, 1: no board
  int quorum = 0;  ///< 0: ⌈ranks/2⌉
  std::uint64_t sync_every =
      0;  ///< batches between model synchronizations (delivery latest), H of algorithms that have one
  std::string delivery = "every";      ///< every, latest
  std::optional<Normalize> normalize;  ///< none: ranks
  std::optional<bool> fixed_order;     ///< whether sums are added up in one order; none: no
  AlgorithmOptions algorithm_options;  ///< those that the algorithm does not take have no effect
  std::uint64_t evaluate_every = 0;    ///< batches between evaluations while the run goes on; 0: none
  std::string evaluate = "average";    ///< what is evaluated: average, or replica, that of rank 0
  /// Which model counts at the end: average of all ranks; best, of those evaluated that of the lowest training loss;
  /// rank0, that rank's own before the last average.
  std::string final_model = "average";
  std::uint64_t checkpoint_every = 0;  ///< batches between checkpoints; 0: none
  std::string resume;                  ///< a run folder to continue
  std::string out;                     ///< run folder; empty: none
  bool local_records = false;  ///< on hosts that do not see rank 0's run folder files of ranks stay where they are
  bool timeline = false;       ///< its trace.json has the times of each tensor; needs an ordering that is not none
  ProgressBy progress_by = ProgressBy::thread;
  Duration liveness{0};    ///< JobOptions::liveness; 0: none
  std::string between;     ///< JobOptions::between
  double time_scale = 1;   ///< multiplies pace and injected delays
  int input_threads = 0;   ///< of InputPipeline (train/job/step/input_pipeline.h); 0: batches are there at once
  Duration input_load{0};  ///< processor time that they burn for a batch
  /// All ranks in one process and in virtual time: steps take what `pace` and `imbalance` say, messages what `network`
  /// says. The gradients are real ones. Needs a pace.
  bool simulated = false;
  std::string network;            ///< simulated: parse_network() (simulate/cluster.h) reads it
  std::string churn;              ///< simulated, with `least`: parse_churn() (train/simulated/churn.h); empty: all stay
  bool no_gradients = false;      ///< simulated: nothing is computed, so that throughput alone is left
  std::uint64_t model_bytes = 0;  ///< no_gradients: of the model whose messages take their time; 0: the task's own
  int model_buckets = 1;          ///< no_gradients: buckets of equal size that the model is in
  /// no_gradients: a bucket each, in the order of the forward pass. Empty: `model_buckets`, which take the same in a
  /// pass each, a third of it forward.
  std::vector<ModelLayer> model_layers;
  /// simulated: gradients of so many ranks are computed at once; 0: as many as there are cores. Changes no result.
  int compute_threads = 0;
};
/// \endcond

}  // namespace stretto
