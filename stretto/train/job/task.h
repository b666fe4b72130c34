#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/train/evaluation/evaluator.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// The properties of a task before anything is computed: its data as batches see it, and its defaults.
struct TaskFacts {
  std::string name;
  std::string unit;                    ///< a unit of work of a batch: "image"
  std::uint64_t samples = 0;           ///< training samples
  std::vector<std::uint32_t> lengths;  ///< units of work of each sample; empty: 1 each
  std::vector<std::uint32_t> labels;   ///< class of each sample; empty where it has none, or they are not known yet
  bool bucketed = false;               ///< batches of samples of similar length
  bool classifies = false;             ///< has an accuracy
  bool sums_in_passes = false;         ///< its model sums over all ranks in each pass (Replica::model_collectives())
  int batch = 1;                       ///< samples a batch and rank
  double lr = 0.1;
  double momentum = 0;
  std::uint64_t epochs = 1;
};

struct RankTaskOptions {
  std::uint64_t seed = 1;  ///< of the model: the same on every rank
  double lr = 0.1;
  double momentum = 0;
  bool by_layer = false;  ///< no bucket of the replica holds parameters of two layers
  /// Its model is only evaluated, beside one that is trained in another thread: it takes no more than one core.
  bool evaluates = false;
};

/// A task in one rank's process: a model on its data. One thread.
class RankTask {
 public:
  virtual ~RankTask() = default;
  virtual Replica& replica() = 0;
  /// Forward and backward pass over a batch; the replica's gradients are those of the mean loss, which is returned. All
  /// that is random in it is drawn from `seed`.
  virtual double forward_backward(std::span<const std::uint32_t> samples, std::uint64_t seed) = 0;
  virtual TaskScore score_test() = 0;
  virtual TaskScore score_training() = 0;
};

/// A task to train, as a trainer needs it. Its data is loaded before the ranks are forked, and shared by them.
class TrainingTask {
 public:
  virtual ~TrainingTask() = default;
  virtual const TaskFacts& facts() const = 0;
  /// Called in the rank's process, in the thread that uses what it returns; in several threads at once, too.
  virtual std::unique_ptr<RankTask> start_rank(const RankTaskOptions& options) const = 0;
};

}  // namespace stretto
