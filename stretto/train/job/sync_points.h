#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "stretto/dispenser/dispenser.h"
#include "stretto/train/job/checkpoint.h"
#include "stretto/train/job/progress_page.h"
#include "stretto/train/job/session.h"

namespace stretto {

/// The work where all ranks are at the same round and nothing is pending: replicas are compared, and the checkpoint is
/// written. Such points are the rounds whose policy is full; where every round is full, those at which the batches
/// applied pass a multiple. Every rank does the same.
///
/// Running statistics (BatchNorm) are local to each rank, unless the algorithm averages them in between; they are
/// averaged before a checkpoint and at the end.
class SyncPoints {
 public:
  struct Context {
    const RunPlan& plan;
    Replica& replica;
    Session& session;
    const Dispenser& dispenser;
    const Checkpoint* resume;  ///< where the job began; null: at its start
    ProgressPage& page;
  };
  explicit SyncPoints(const Context& context);
  /// Where checkpoints go, if the plan wants any. On every rank alike; `folder` must outlive this. `before` is called
  /// on every rank ahead of each, and returns the seconds since the first step of the job.
  void save_to(const RunFolder& folder, std::function<double()> before) {
    folder_ = &folder;
    before_ = std::move(before);
  }

  /// Called when a round has been applied, inside the apply function; `applied`: batches so far.
  void after_round(const RoundResult& result, std::uint64_t applied);
  /// Called when the last round has been applied.
  Session::Comparison finish();

  /// Whether every comparison so far found all replicas equal.
  bool identical() const { return identical_; }

 private:
  std::uint64_t checkpoint_every() const { return folder_ != nullptr ? context_.plan.options.checkpoint_every : 0; }
  bool due(const RoundResult& result, std::uint64_t applied);
  Session::Comparison compare();
  void save(std::uint64_t batches);

  const Context context_;
  const RunFolder* folder_ = nullptr;
  std::function<double()> before_;
  const std::uint64_t compare_every_;   // batches; where every round is full
  const std::uint64_t batches_before_;  // the checkpoint where the job began
  std::uint64_t compared_at_;
  std::uint64_t saved_at_;
  DispenserPosition saved_position_;
  std::size_t saved_steps_ = 0;  // of this rank's log
  bool identical_ = true;
};

}  // namespace stretto
