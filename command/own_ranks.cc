#include "command/own_ranks.h"

#include <fmt/format.h>

#include "command/machine.h"
#include "stretto/train/run.h"

namespace stretto::command {

Result<std::string> report_of_rank_0(JobOptions options, const RankMain& main) {
  options.patience_after_loss = std::chrono::seconds(1);
  const auto result = run_job(options, main);
  if (!result) return result.error();
  if (result->interrupted) throw Interrupted("interrupted");
  if (!result->ok()) {
    const int lost = result->first_lost;
    return Error{lost >= 0 ? Errc::lost_peer : Errc::aborted,
                 lost >= 0 ? fmt::format("rank {} was killed", lost) : std::string("a rank failed"), lost};
  }
  return result->reports.front();
}

DriverOptions waiting_of(RankContext& context) {
  DriverOptions options;
  if (context.size() > this_machine().cores) options.share_cores();
  return options;
}

Setter seats_into(int& seats) {
  return [&seats](std::string_view option, const std::string& text) {
    if (text != "1") reject(option, text, "expected 1; without it all ranks of the host meet");
    seats = 1;
  };
}

}  // namespace stretto::command
