#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <optional>

#include "stretto/membership/job.h"
#include "stretto/transport/mpi.h"

namespace stretto {
namespace {

static_assert(RankContext::kNumCounters == MpiJob::kNumCounters);

/// What another program than ours starts ranks with, and how it shows in their environment.
struct Starter {
  const char* name;
  const char* size_variable;
  const char* rank_variable;  // must be there, too
  bool speaks_mpi;
};

constexpr Starter kStarters[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", true},
    {"mpiexec", "PMI_SIZE", "PMI_RANK", true},
    // Of the step: SLURM_NTASKS is there in a batch script, too, which is one process.
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", true},
    {"torchrun", "WORLD_SIZE", "RANK", false},
};

struct Launch {
  const Starter* starter;
  LaunchedRank place;
};

std::optional<Launch> launch() {
  for (const Starter& starter : kStarters) {
    const char* size = std::getenv(starter.size_variable);
    const char* rank = std::getenv(starter.rank_variable);
    if (size == nullptr || rank == nullptr) continue;
    if (const int ranks = std::atoi(size); ranks > 1) return Launch{&starter, {std::atoi(rank), ranks}};
  }
  return std::nullopt;
}

class MpiRankContext final : public RankContext {
 public:
  explicit MpiRankContext(MpiJob& job) : job_(job) {}

  Transport& transport() override { return job_.transport(); }
  SharedCounter& counter(int index) override { return job_.counter(index); }
  std::span<std::byte> extra() override { return {}; }
  bool interrupted() override { return false; }
  void report(std::string text) override { report_ = std::move(text); }

  const std::string& reported() const { return report_; }

 private:
  MpiJob& job_;
  std::string report_;
};

}  // namespace

std::optional<LaunchedRank> launched_rank() {
  if (const auto launched = launch()) return launched->place;
  return std::nullopt;
}

bool launched_from_outside() {
  return launched_rank().has_value();
}

Result<JobResult> run_as_launched(const RankMain& main) {
  const auto launched = launch();
  if (!launched) {
    return Error{Errc::unavailable, "this process is no rank of mpirun or srun; start it with mpirun -n RANKS"};
  }
  const Starter& starter = *launched->starter;
  if (!starter.speaks_mpi) {
    return Error{Errc::unavailable,
                 text("ranks started by ", starter.name, " (", starter.size_variable, "=", launched->place.ranks,
                      ") cannot find each other: start one process without it and give it the number of ranks, or use "
                      "mpirun -n ",
                      launched->place.ranks)};
  }
  auto started = MpiJob::start();
  if (!started) return started.error();
  MpiJob& job = **started;
  if (const int size = job.transport().size(); size != launched->place.ranks) {
    return Error{Errc::unavailable, text(starter.name, " has started ", launched->place.ranks, " ranks, but MPI sees ",
                                         size, ": use the mpirun of this MPI, or srun --mpi=pmix")};
  }
  MpiRankContext context(job);
  int status = 1;
  try {
    status = main(context);
  } catch (const std::exception& error) {
    std::cerr << text("stretto: rank ", context.rank(), ": ", error.what(), "\n");
  }
  if (status != 0) {
    std::cout.flush();
    std::fflush(nullptr);
    job.abort(status);
  }
  JobResult result;
  result.exit_status.assign(static_cast<std::size_t>(launched->place.ranks), 0);
  result.reports = job.gather(context.reported());
  return result;
}

}  // namespace stretto
