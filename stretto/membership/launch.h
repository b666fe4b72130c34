#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stretto/membership/job.h"

namespace stretto {

/// How the environment says that this process was started, as one of several ranks.
struct Launch {
  LaunchedRank place;
  std::string job;  ///< what tells this job from others on this host
};
std::optional<Launch> find_launch();

/// The beginning of TORCHELASTIC_RUN_ID in ranks that `stretto run` has started, by which they are told from
/// torchrun's.
inline constexpr std::string_view kRunIdBegins = "stretto-run-";

/// Whether an environment variable says to a process that it is one of several, or of which job. Ranks that are started
/// inside a job of another starter must not find that one's.
bool is_of_a_starter(std::string_view variable);

/// Runs `main` as the rank that join_options_by_environment() says. On rank 0 the reports of all ranks are there; where
/// members of the job change, that of this rank alone. Does not return for a status other than 0.
Result<JobResult> run_joined(const RankMain& main, const JobOptions& options);

}  // namespace stretto
