#include "command/train/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "command/cli/exit_code.h"
#include "command/cli/print.h"
#include "command/train/ordering_table.h"
#include "command/train/report.h"
#include "command/train/workload_task.h"
#include "stretto/base/cores.h"
#include "stretto/base/error.h"
#include "stretto/imbalance/pace.h"

namespace stretto::command {

namespace {

// The warnings that belong to every table.
void say_caveats(const Output& output, std::span<const RunGroup> groups) {
  double share = 0;
  for (const RunGroup& group : groups) {
    for (const RunSummary& run : group.runs) share = std::max(share, run.real_compute_share);
  }
  const TrainOptions& options = groups.front().options;
  if (options.pace == Duration(0)) {
    if (options.ranks <= num_cores()) return;
    return output.say(
        fmt::format("unpaced, with {} ranks on {} cores: ranks wait for cores as well as for each other; --pace TIME "
                    "emulates a core each",
                    options.ranks, num_cores()));
  }
  if (options.simulated) return;  // no core is shared there
  const Duration pace = from_seconds(seconds(options.pace) * options.time_scale);
  output.say(fmt::format("real computation takes {:.0f} % of the pace", 100 * share));
  if (const auto warning = pace_warning(share, pace)) output.say(*warning);
}

}  // namespace

std::unique_ptr<TrainingTask> load_task(const std::string& workload, std::uint64_t seed) {
  return workload_task(load_dataset(workload, {.seed = seed}).or_throw());
}

int verdict(std::span<const RunGroup> groups) {
  for (const RunGroup& group : groups) {
    const std::string broken = broken_promise(group);
    if (broken.empty()) continue;
    print_to(stderr, fmt::format("a promise is broken: {}\n", broken));
    return kFailedRun;
  }
  return kSuccess;
}

void say_result(const Output& output, std::span<const RunGroup> groups) {
  output.say(comparison_table(groups));
  if (groups.size() > 1) output.say(about_the_ideal(groups) + "\n");
  if (const std::string scores = score_table(groups); !scores.empty()) output.say(scores);
  if (const std::string paired = paired_table(groups); !paired.empty()) output.say(paired);
  for (const RunGroup& group : groups) output.say(ledger_text(group));
  output.say(traffic_text(groups));
  if (const std::string ordering = ordering_table(groups); !ordering.empty()) output.say(ordering);
  say_caveats(output, groups);
}

}  // namespace stretto::command
