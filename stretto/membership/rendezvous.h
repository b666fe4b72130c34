#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/descriptor.h"
#include "stretto/base/error.h"
#include "stretto/membership/rank_end.h"
#include "stretto/transport/job_memory.h"

namespace stretto {

/// As whom a process comes to the other ranks of its job.
struct RendezvousOptions {
  int rank = 0;
  int ranks = 1;                  ///< of the job, all on this host
  std::string job;                ///< the same on all its ranks, and not that of another job of this user on this host
  std::string version;            ///< must be the same on all ranks, such as "stretto 1.0.0"; up to 63 characters
  std::string folder;             ///< for a socket with a file; empty: a socket without one, of the abstract namespace
  std::uint64_t extra_bytes = 0;  ///< of the memory; what rank 0 says counts
  Duration timeout = std::chrono::seconds(60);  ///< for the last rank to come
  /// Called about ten times a second meanwhile. What it throws passes through meet(), and this rank has not come.
  std::function<void()> look = {};
};

/// A rank's outcome of the meeting: the memory of the job, into which all have entered, and for each rank a pipe on
/// which rank 0 hears of its end.
struct Rendezvous {
  JobMemory memory;
  Descriptor to_first;                ///< this rank's end of its pipe; none on rank 0
  std::vector<RankPipe> from_others;  ///< on rank 0: those of the ranks 1, 2, …
};

/// Meets the other ranks of a job that something else has started, each as a process of its own: at a Unix socket that
/// rank 0 opens, where it hands out the memory that all share. No rank returns with a Rendezvous before all have it.
///
/// Only processes of the same user are let in. Whatever keeps the ranks apart is told on all that have come: a rank
/// that does not come within the timeout (Errc::timeout), one that ends meanwhile (Errc::lost_peer), two that are the
/// same rank, or ranks of other versions or jobs (Errc::bad_input). Throws UsageError for a rank outside of its job,
/// and for a folder whose name is too long for a socket.
Result<Rendezvous> meet(const RendezvousOptions& options);

}  // namespace stretto
