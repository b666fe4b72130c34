#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>

#include "stretto/membership/launch.h"

namespace stretto {
namespace {

/// The launchers other than ours that start ranks, and how they show in the environment.
struct Starter {
  const char* name;
  const char* size_variable;
  const char* rank_variable;                   // must be there, too
  const char* local_size_variable;             // ranks on this host; may be missing
  std::span<const char* const> job_variables;  // tell its jobs apart
  bool shares_memory;
};

// A restarted job has another number of restarts: what is left of the one before does not meet it.
constexpr const char* kTorchrunJob[] = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                                        "TORCHELASTIC_RESTART_COUNT"};

constexpr Starter kStarters[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", {}, false},
    {"mpiexec", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", {}, false},
    // Of the step: SLURM_NTASKS is there in a batch script, too, which is one process.
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE", {}, false},
    {"torchrun", "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", kTorchrunJob, true},
};

/// "MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 …"
std::string name_of_job(const Starter& starter) {
  std::string name = starter.name;
  const auto add = [&name](const char* variable) {
    const char* value = std::getenv(variable);
    name += text(' ', variable, '=', value != nullptr ? value : "");
  };
  for (const char* variable : starter.job_variables) add(variable);
  add("STRETTO_JOB");
  return name;
}

}  // namespace

std::optional<Launch> find_launch() {
  for (const Starter& starter : kStarters) {
    const char* size = std::getenv(starter.size_variable);
    const char* rank = std::getenv(starter.rank_variable);
    if (size == nullptr || rank == nullptr) continue;
    const int ranks = std::atoi(size);
    if (ranks <= 1) continue;
    const char* local_size = std::getenv(starter.local_size_variable);
    const int local_ranks = local_size != nullptr ? std::atoi(local_size) : 0;  // Slurm: "4(x2),3" begins with ours
    return Launch{.place = {.rank = std::atoi(rank),
                            .ranks = ranks,
                            .local_ranks = local_ranks > 0 ? local_ranks : ranks,
                            .starter = starter.name,
                            .shares_memory = starter.shares_memory},
                  .job = name_of_job(starter)};
  }
  return std::nullopt;
}

std::optional<LaunchedRank> launched_rank() {
  if (const auto launched = find_launch()) return launched->place;
  return std::nullopt;
}

bool launched_from_outside() {
  return launched_rank().has_value();
}

Result<JobResult> run_as_launched(const RankMain& main, const JobOptions& options) {
  const auto launched = find_launch();
  if (!launched) {
    return Error{Errc::unavailable,
                 "this process is no rank of mpirun, srun or torchrun; start it with mpirun -n RANKS"};
  }
  return launched->place.shares_memory ? run_joined(*launched, main, options)
                                       : run_under_mpi(*launched, main, options.prepare);
}

Result<JobResult> launch(const JobOptions& options, const RankMain& main) {
  return launched_from_outside() ? run_as_launched(main, options) : run_job(options, main);
}

}  // namespace stretto
