#pragma once

#include <functional>
#include <optional>
#include <string>

#include "stretto/membership/job.h"

namespace stretto {

/// How the environment says that this process was started, as one of several ranks.
struct Launch {
  LaunchedRank place;
  std::string job;  ///< what tells this job from others on this host
};
std::optional<Launch> find_launch();

/// Runs `main` as a rank of MPI. On rank 0 the reports of all ranks are there. Does not return for a status other than
/// 0.
Result<JobResult> run_under_mpi(const Launch& launch, const RankMain& main,
                                const std::function<void(RankContext&)>& prepare);
/// Runs `main` as a rank that meets the others in memory which they share. Otherwise as run_under_mpi().
Result<JobResult> run_joined(const Launch& launch, const RankMain& main, const JobOptions& options);

}  // namespace stretto
