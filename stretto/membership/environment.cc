#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <optional>
#include <thread>

#include "stretto/membership/job.h"
#include "stretto/membership/rank_end.h"
#include "stretto/transport/mpi.h"

namespace stretto {
namespace {

static_assert(RankContext::kNumCounters < MpiJob::kNumCounters);

/// Counts the ranks that have said why the job ends.
constexpr int kComplaints = RankContext::kNumCounters;
/// So long a rank that fails because of another gives that one to say why, and to end the job.
constexpr Duration kTimeForTheCause = std::chrono::seconds(3);

/// The launchers other than ours that start ranks, and how they show in the environment.
struct Starter {
  const char* name;
  const char* size_variable;
  const char* rank_variable;        // must be there, too
  const char* local_size_variable;  // ranks on this host; may be missing
  bool speaks_mpi;
};

constexpr Starter kStarters[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", true},
    {"mpiexec", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", true},
    // Of the step: SLURM_NTASKS is there in a batch script, too, which is one process.
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE", true},
    {"torchrun", "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", false},
};

struct Launch {
  const Starter* starter;
  LaunchedRank place;
};

std::optional<Launch> find_launch() {
  for (const Starter& starter : kStarters) {
    const char* size = std::getenv(starter.size_variable);
    const char* rank = std::getenv(starter.rank_variable);
    if (size == nullptr || rank == nullptr) continue;
    const int ranks = std::atoi(size);
    if (ranks <= 1) continue;
    const char* local_size = std::getenv(starter.local_size_variable);
    const int local_ranks = local_size != nullptr ? std::atoi(local_size) : 0;  // Slurm: "4(x2),3" begins with ours
    return Launch{&starter, {std::atoi(rank), ranks, local_ranks > 0 ? local_ranks : ranks, starter.name}};
  }
  return std::nullopt;
}

class MpiRankContext final : public RankContext {
 public:
  explicit MpiRankContext(MpiJob& job) : job_(job) {}

  Transport& transport() override { return job_.transport(); }
  RankEngine& engine() override { return engine_; }
  SharedCounter& counter(int index) override { return job_.counter(index); }
  std::span<std::byte> extra() override { return {}; }
  bool interrupted() override { return false; }
  void report(std::string text) override {
    if (report_) throw UsageError(second_report(rank()));
    report_ = std::move(text);
  }

  void complain(const Error& error) override { complaint_ = message_of(error, rank()); }

  std::string reported() const { return report_.value_or(std::string()); }
  const std::optional<RankMessage>& complaint() const { return complaint_; }

 private:
  MpiJob& job_;
  std::optional<std::string> report_;
  std::optional<RankMessage> complaint_;
  const SteadyClock clock_;
  RankEngine engine_{job_.transport(), clock_};
};

}  // namespace

std::optional<LaunchedRank> launched_rank() {
  if (const auto launched = find_launch()) return launched->place;
  return std::nullopt;
}

bool launched_from_outside() {
  return launched_rank().has_value();
}

namespace {

/// Ends the job, and says why unless another rank has or does: then the whole job is ended before this returns.
void end_job(MpiJob& job, int status, const std::optional<RankMessage>& why) {
  SharedCounter& complaints = job.counter(kComplaints);
  const auto first = [&] { return complaints.fetch_add(1) == 0; };
  const auto wait = [] { std::this_thread::sleep_for(kTimeForTheCause); };
  bool heard = false;
  if (why && why->kind == RankMessage::Kind::cause) {
    heard = first();
    if (!heard) wait();
  } else if (why) {
    wait();
    heard = first();
  }
  if (heard) std::cerr << text("stretto: ", why->text, "\n") << std::flush;
  std::cout.flush();
  std::fflush(nullptr);
  job.abort(status);
}

Result<JobResult> run_under_mpi(const RankMain& main, const std::function<void(RankContext&)>& prepare) {
  const auto launched = find_launch();
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
  std::optional<MpiRankContext> context(std::in_place, job);
  int status = 1;
  std::optional<RankMessage> why;
  try {
    if (prepare) prepare(*context);
    status = process_status(main(*context));
    why = context->complaint();
  } catch (...) {
    why = message_of_exception(context->rank());
  }
  if (status != 0) end_job(job, status, why);
  const std::string report = context->reported();
  context.reset();  // nobody else uses MPI from here on
  JobResult result;
  result.exit_status.assign(static_cast<std::size_t>(launched->place.ranks), 0);
  result.reports = job.gather(report);
  return result;
}

}  // namespace

Result<JobResult> run_as_launched(const RankMain& main) {
  return run_under_mpi(main, {});
}

Result<JobResult> launch(const JobOptions& options, const RankMain& main) {
  return launched_from_outside() ? run_under_mpi(main, options.prepare) : run_job(options, main);
}

}  // namespace stretto
