#include <cstdio>
#include <iostream>
#include <optional>
#include <utility>

#include "stretto/membership/launch.h"
#include "stretto/membership/rank_end.h"
#include "stretto/transport/mpi.h"

namespace stretto {
namespace {

static_assert(kRanksThatTold < MpiJob::kNumCounters);

class MpiRankContext final : public RankContext {
 public:
  explicit MpiRankContext(MpiJob& job) : job_(job) {}

  World& world() override { return world_; }
  SharedCounter& counter(int index) override { return job_.counter(index); }
  std::span<std::byte> extra() override { return {}; }
  std::optional<Duration> clock_offset() override {
    if (job_.transport().members().hosts() > 1) return std::nullopt;
    return Duration::zero();
  }
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
  World world_{job_.transport(), clock_};
};

/// Ends the job, and says why unless another rank has or does: then the whole job is ended before this returns.
void end_job(MpiJob& job, int status, const std::optional<RankMessage>& why) {
  if (why) tell_why(*why, job.counter(kRanksThatTold));
  std::cout.flush();
  std::fflush(nullptr);
  job.abort(status);
}

}  // namespace

Result<JobResult> run_under_mpi(const Launch& launch, const RankMain& main,
                                const std::function<void(RankContext&)>& prepare) {
  auto started = MpiJob::start();
  if (!started) return started.error();
  MpiJob& job = **started;
  const LaunchedRank& place = launch.place;
  if (const int size = job.transport().size(); size != place.ranks) {
    return Error{Errc::unavailable, text(place.starter, " has started ", place.ranks, " ranks, but MPI sees ", size,
                                         ": use the mpirun of this MPI, or srun --mpi=pmix")};
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
  result.exit_status.assign(static_cast<std::size_t>(place.ranks), 0);
  result.reports = job.gather(report);
  return result;
}

}  // namespace stretto
