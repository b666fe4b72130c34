#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "stretto/train/job/rank_report.h"
#include "stretto/train/job/run_plan.h"
#include "stretto/train/job/task.h"

namespace stretto {

/// What rank 0 finds out about models while a run goes on, and which of them counts at its end
/// (TrainOptions::evaluate, evaluate_every, final_model). The other ranks go on meanwhile: where rounds do not wait for
/// all, they lose nothing by it. Never judges a model by test data. Rank 0's application thread.
///
/// *Average*: the weights after a round by which all ranks have the same ones: any where gradients are averaged, else
/// a full one. *Replica*: the weights of rank 0 as they are.
class Evaluations {
 public:
  /// `batches`: applied before the run (resume). Both references outlive this.
  Evaluations(const RunPlan& plan, RankTask& task, std::uint64_t batches);

  /// A round has been applied after which all ranks have the same weights.
  void note_average() { average_since_ = true; }
  /// The step is over, with so many batches applied, so many seconds after the start: evaluates if it is time to.
  void after_step(std::uint64_t batches, double seconds);
  /// Rank 0 has no more batches, and has not been to the last rounds: the model that `rank0` means.
  void before_last_rounds();
  /// After the last round, when no other rank hears of this one's weights any more: gives the replica the weights that
  /// count, and the report the evaluations.
  void finish(std::uint64_t batches, RankReport& report);

 private:
  void evaluate(std::uint64_t batches, double seconds, bool average);
  void keep_weights(std::uint64_t batches);

  const RunPlan& plan_;
  RankTask& task_;
  std::uint64_t evaluated_at_;  // batches
  bool average_since_ = false;  // in this step
  std::vector<EvaluationPoint> points_;
  double lowest_ = std::numeric_limits<double>::infinity();  // training loss of the weights kept, for `best`
  std::uint64_t kept_at_ = 0;                                // batches
  std::vector<std::vector<std::byte>> kept_;                 // weights that may count; empty: none
};

}  // namespace stretto
