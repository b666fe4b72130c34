#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/shared_counter.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// What one rank of a job has: its place, its transport and what all ranks share.
class RankContext {
 public:
  virtual ~RankContext() = default;
  int rank() { return transport().rank(); }
  int size() { return transport().size(); }
  virtual Transport& transport() = 0;
  /// Counter `index` of the job, 0 … kNumCounters−1, 0 at the start. Same object for the same index.
  virtual SharedCounter& counter(int index) = 0;
  /// JobOptions::extra_bytes of memory, 0 at the start, the same for all ranks; empty where ranks share none (MPI).
  virtual std::span<std::byte> extra() = 0;
  /// The job is being stopped by SIGINT or SIGTERM: what happens to this rank's peers is no failure.
  virtual bool interrupted() = 0;
  /// Hands `text` to whoever started the job: JobResult::reports[rank]. At most once, before the rank returns.
  virtual void report(std::string text) = 0;

  static constexpr int kNumCounters = 16;
};

/// What a rank runs. Its return value is the exit status of the rank: 0 says goodbye to the others, anything else (and
/// an exception) tells them that this rank is lost.
using RankMain = std::function<int(RankContext&)>;

struct JobOptions {
  int ranks = 1;
  /// Bytes of shared memory beside the transport's own, mapped by all ranks; 0 for none.
  std::uint64_t extra_bytes = 0;
  /// Called on the parent's thread about ten times a second while the ranks run (progress display).
  std::function<void()> while_running;
  /// Once a rank is lost the others have this long to end by themselves before they are killed.
  Duration patience_after_loss = std::chrono::seconds(30);
  /// The same after SIGINT or SIGTERM, which is passed on to the ranks as SIGTERM.
  Duration patience_after_interrupt = std::chrono::seconds(2);
};

struct JobResult {
  std::vector<int> exit_status;      ///< per rank; 128 + signal for a killed one
  std::vector<std::string> reports;  ///< per rank; empty where there is none
  int first_lost = -1;               ///< the rank that died first by a signal that we did not send, or −1
  bool interrupted = false;          ///< SIGINT or SIGTERM came while the ranks ran
  /// Nothing but zeros, and not interrupted.
  bool ok() const;
};

/// Shared memory that a job takes at most (pages are taken when used), in bytes, without what its collectives take of
/// the arena when they are made. Throws as run_job().
std::uint64_t job_memory_bytes(const JobOptions& options);

/// Runs `main` in `options.ranks` processes forked from this one, over shared memory, and waits for all of them.
/// The children die with their parent; a killed one is noticed by the others within a second; nothing is left behind.
/// A child ignores SIGINT (a terminal sends it to all; the parent decides) and leaves without destructors of statics.
/// Requires: this process has no other threads; no other child of it is waited for meanwhile.
/// Errc::unavailable names the shared memory needed when there is too little; Errc::io if no process can be made.
/// Throws UsageError for a number of ranks below 1 or above JobMemory::kMaxRanks, and for a STRETTO_SHM_LIMIT that is
/// no number.
Result<JobResult> run_job(const JobOptions& options, const RankMain& main);

/// The place of a process among those that mpirun, srun or torchrun has started together.
struct LaunchedRank {
  int rank = 0;
  int ranks = 1;
};
/// By this process's environment; nothing where it stands alone.
std::optional<LaunchedRank> launched_rank();

/// True in a process that mpirun, srun or torchrun has started as one of several ranks.
bool launched_from_outside();

/// Runs `main` as the rank this process is (mpirun, srun; the transport is mpi). On rank 0 the reports of all
/// ranks are there; elsewhere they are empty. A rank that does not return 0 ends the job, as MPI does: no return.
/// Errc::unavailable where MPI is not built in, or where this process was started by something else.
Result<JobResult> run_as_launched(const RankMain& main);

}  // namespace stretto
