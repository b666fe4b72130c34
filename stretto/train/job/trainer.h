#pragma once

#include <memory>
#include <optional>
#include <string>

#include "stretto/membership/job.h"
#include "stretto/observe/recent_steps.h"
#include "stretto/simulate/virtual_ranks.h"
#include "stretto/train/job/checkpoint.h"
#include "stretto/train/job/evaluations.h"
#include "stretto/train/job/progress_page.h"
#include "stretto/train/job/rank_report.h"
#include "stretto/train/job/run_plan.h"
#include "stretto/train/job/task.h"

namespace stretto {

/// So long a wait is told of in a real job.
inline constexpr Duration kSilence = std::chrono::seconds(10);

/// The objects that one rank's trainer works with. All outlive the trainer.
struct TrainerContext {
  const RunPlan& plan;
  RankTask& task;
  RankContext& rank;  ///< its clock is the same for all ranks of a host; counter 0, at 0, is the dispenser's
  ProgressPage& page;
  RecentSteps* steps = nullptr;        ///< hears of each step of this rank; null: nobody watches
  std::string folder;                  ///< for records, trace and checkpoints, which is there; empty: none
  Duration silence = kSilence;         ///< after such a time without news the ranks waited for are told
  const Checkpoint* resume = nullptr;  ///< where the job continues; null: at its start
  SecondTask second_task = {};         ///< on rank 0, for evaluations while the run goes on
  VirtualRank* place = nullptr;        ///< on a virtual clock, which is the world's; null: time passes as it does
  double body_scale = 1;               ///< NetworkOptions::body_scale, for what is recorded of messages
};

/// One rank's loop: a batch from the dispenser, forward and backward pass, the pace and the delays that are asked for,
/// the algorithm's exchange with the other ranks; until no rank has batches left. One thread; every rank runs one.
class Trainer {
 public:
  /// Registers its collectives.
  explicit Trainer(const TrainerContext& context);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Once. Throws UsageError for a checkpoint of another model, Failure: Errc::aborted when some rank has stopped the
  /// job, Errc::lost_peer.
  RankReport run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
