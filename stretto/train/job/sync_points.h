#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "stretto/dispenser/dispenser.h"
#include "stretto/membership/changes.h"
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
    Changes* changes = nullptr;  ///< where members of the job change: then of this rank
  };
  explicit SyncPoints(const Context& context);
  /// Where checkpoints go, if the plan wants any. On every rank alike; `folder` must outlive this. `before` is called
  /// on every rank ahead of each, and returns the seconds since the first step of the job.
  void save_to(const RunFolder& folder, std::function<double()> before) {
    folder_ = &folder;
    before_ = std::move(before);
  }

  /// This rank comes to a job in which so many batches have been applied, and has the model after them.
  void take_over(std::uint64_t applied) { applied_ = compared_at_ = applied; }
  /// Called when a round has been applied, inside the apply function; `applied`: batches so far.
  void after_round(const RoundResult& result, std::uint64_t applied);
  /// Called when the last round has been applied.
  Session::Comparison finish();

  /// Whether every comparison so far found all replicas equal.
  bool identical() const { return identical_; }

 private:
  std::uint64_t checkpoint_every() const { return folder_ != nullptr ? context_.plan.options.checkpoint_every : 0; }
  bool due(const RoundResult& result);
  /// The world in which this rank is, where members change; else always the same.
  std::uint64_t epoch() const { return context_.changes != nullptr ? context_.changes->view().epoch : 0; }
  Session::Comparison compare();
  /// Batches, since the start of the job, where all ranks are at the same round and nothing is pending.
  std::uint64_t used(const Session::Comparison& found) const {
    return context_.changes != nullptr ? applied_ : batches_before_ + found.deposits;
  }
  /// The batches at the last checkpoint that has been written, the same on every rank: where members change, one that
  /// was cut off on some or all of them is none.
  std::uint64_t saved_at();
  void save(std::uint64_t batches);
  /// Takes what each rank was handed into saved_position_.
  void note_position(const std::vector<std::vector<std::uint64_t>>& handed_out);
  void note_position_of_pool(const std::vector<std::vector<std::uint64_t>>& handed_out);

  const Context context_;
  const RunFolder* folder_ = nullptr;
  std::function<double()> before_;
  const std::uint64_t compare_every_;   // batches; where every round is full
  const std::uint64_t batches_before_;  // the checkpoint where the job began
  std::uint64_t applied_;               // so far
  std::uint64_t compared_at_;
  std::uint64_t compared_in_ = 0;  // epoch
  std::uint64_t saved_at_;         // as far as this rank knows
  std::uint64_t saved_in_ = 0;     // epoch
  DispenserPosition saved_position_;
  const std::vector<std::uint64_t> first_steps_;  // of each rank, where the job began
  std::size_t saved_steps_ = 0;                   // of this rank's log
  bool identical_ = true;
};

}  // namespace stretto
