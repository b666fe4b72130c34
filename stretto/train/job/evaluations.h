#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "stretto/train/evaluation/evaluator.h"
#include "stretto/train/job/rank_report.h"
#include "stretto/train/job/run_plan.h"
#include "stretto/train/job/task.h"

namespace stretto {

/// Makes the task whose model copies are evaluated on. Called once, in the thread that evaluates.
using SecondTask = std::function<std::unique_ptr<RankTask>()>;

/// When rank 0 has models evaluated while a run goes on, and which of them counts at its end (TrainOptions::evaluate,
/// evaluate_every, final_model). It copies a model at the moment in question; a thread of its own evaluates the copy,
/// while this rank, too, goes on. A rank that trains faster than its copies are evaluated waits for them, so that the
/// models evaluated are the same in every run. Never judges a model by test data. Rank 0's application thread.
///
/// *Average*: the weights after a round by which all ranks have the same ones: any where gradients are averaged, else
/// a full one. *Replica*: the weights of rank 0 as they are.
class Evaluations {
 public:
  struct Context {
    const RunPlan& plan;
    RankTask& task;
    SecondTask second_task;
    /// Throws when the job has been stopped. Called while this rank waits for its copies to be evaluated.
    std::function<void()> require_going_on;
  };
  /// `batches`: applied before the run (resume). The references outlive this.
  Evaluations(Context context, std::uint64_t batches);

  /// A round has been applied, so many seconds after the start, after which all ranks have the same weights; called
  /// before anything else moves them.
  void after_average(std::uint64_t batches, double seconds);
  /// Whether after_step() takes a copy of rank 0's own weights, which have to be there then.
  bool copies_replica(std::uint64_t batches) const { return !of_average_ && due(batches); }
  /// A step is over. Throws std::runtime_error when an evaluation has failed.
  void after_step(std::uint64_t batches, double seconds);
  /// Rank 0 has no more batches, and has not been to the last rounds: the model that `rank0` means.
  void before_last_rounds();
  /// After the last round, when no other rank hears of this one's weights any more: waits until all copies are
  /// evaluated, gives the replica the weights that count, and the report the evaluations. Throws as after_step().
  void finish(std::uint64_t batches, RankReport& report);

 private:
  bool due(std::uint64_t batches) const;
  void hand_over(std::uint64_t batches, double seconds, bool average);

  const Context context_;
  const bool of_average_;
  Evaluator evaluator_;
  std::uint64_t evaluated_at_;                              // batches
  std::optional<std::vector<std::vector<std::byte>>> own_;  // the model that `rank0` means
};

}  // namespace stretto
