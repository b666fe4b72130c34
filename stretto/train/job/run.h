#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "stretto/membership/job.h"
#include "stretto/observe/recent_steps.h"
#include "stretto/train/job/summary.h"
#include "stretto/train/job/task.h"
#include "stretto/train/options/train_options.h"

namespace stretto {

/// The progress of a run, for a caller that watches it.
struct RunProgress {
  std::uint64_t batches = 0;  ///< applied so far
  std::uint64_t total = 0;
  std::uint64_t rounds = 0;
  double seconds = 0;  ///< since the first step; 0 before it
  /// Set once for each thing to be told, e.g. "round 412 (full) waits for rank 3 (silent, last seen 11 s ago)".
  std::string notice;
  /// The recent steps of the ranks, during the call; null unless RunHooks::recent_steps.
  const RecentSteps* steps = nullptr;
};

struct RunHooks {
  /// Called on this thread about ten times a second while the ranks run. Null: notices go to standard error.
  std::function<void(const RunProgress&)> progress;
  /// Have RunProgress::steps. Only ranks that run_training() forks, on the machine's clock, can be watched so.
  bool recent_steps = false;
  /// Where members change: starts the ranks as processes of their own, each of which calls run_training() with the same
  /// options, and to which others may come; waits for their ends, and returns their reports. What goes wrong has been
  /// told then. Null: ranks are forked, and nobody comes.
  std::function<JobResult()> start_members = {};
  /// Of start_members(): the job has begun before, and its run folder is there.
  bool goes_on = false;
};

/// SIGINT or SIGTERM came while the ranks ran; they have ended.
class Interrupted final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Trains `task` as the options say, in as many processes as there are ranks: forked from this one, or, where mpirun or
/// srun has started this program as one of several, as that rank, or as a member of RunHooks::start_members. Blocks
/// until all is over.
///
/// Returns the summary of the run; nothing in a launched process other than rank 0, in a member, and where members that
/// were started so have not reached the end.
/// Throws UsageError for options that do not fit (nothing has been started then), Interrupted, and Failure:
/// Errc::lost_peer names the rank that died, Errc::aborted says why a rank stopped the job (a gradient that is not
/// finite, with rank, step and parameter), Errc::unavailable names the memory needed.
/// Requires: this process has no other threads, and has not used Torch's.
std::optional<RunSummary> run_training(const TrainOptions& options, const TrainingTask& task,
                                       const RunHooks& hooks = {});

/// The options as the run will take them: with the task's and the algorithm's defaults in place of options left open.
/// Throws UsageError as run_training() does, without starting or writing anything.
TrainOptions resolved(const TrainOptions& options, const TaskFacts& facts);

}  // namespace stretto
