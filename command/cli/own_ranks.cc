#include "command/cli/own_ranks.h"

#include <fmt/format.h>

#include <string>

#include "command/machine/machine.h"
#include "stretto/train/job/run.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

Result<std::vector<std::string>> reports_of_ranks(JobOptions options, const RankMain& main) {
  options.grace_after_loss = std::chrono::seconds(1);
  options.tell = [](const std::string&) {};  // the Error says it
  const auto result = run_job(options, main);
  if (!result) return result.error();
  if (result->interrupted) throw Interrupted("interrupted");
  if (!result->ok()) {
    const int lost = result->first_lost;
    return Error{lost >= 0 ? Errc::lost_peer : Errc::aborted,
                 result->cause.empty() ? std::string("a rank failed") : result->cause, lost};
  }
  return result->reports;
}

Result<std::string> report_of_rank_0(const JobOptions& options, const RankMain& main) {
  const auto reports = reports_of_ranks(options, main);
  if (!reports) return reports.error();
  return reports->front();
}

DriverOptions waiting_of(RankContext& context) {
  DriverOptions options;
  if (context.size() > this_machine().cores) options.share_cores();
  return options;
}

Setter seats_into(int& seats) {
  return into(seats, 1, JobMemory::kMaxRanks, "1");
}

void check_seats(int seats, int ranks) {
  if (seats <= ranks) return;
  reject("--seats", std::to_string(seats), fmt::format("expected a number from 1 to {}, the number of ranks", ranks));
}

}  // namespace stretto::command
