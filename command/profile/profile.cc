#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/table.h"
#include "command/machine/machine.h"
#include "command/profile/profile_command.h"
#include "command/statistics/statistics.h"
#include "command/train/torch_workload.h"
#include "stretto/base/words.h"
#include "stretto/observe/whole_file.h"
#include "stretto/train/profile/training_profile.h"

namespace stretto::command {

namespace {

// Of blocks of steps with profiling and without. Many short ones: what disturbs the machine for longer is in both.
constexpr int kPairs = 201;
constexpr int kBlocksOfSteps = 10;  // so many blocks are as long as the steps that are written

/// Medians over the steps, in a row a layer.
std::string layer_table(const TrainingProfile& profile) {
  Table table({"layer", "bytes", "forward, us", "backward, us", "update, us", "after"});
  const auto microseconds = [&](std::size_t layer, double Layer::*member) {
    std::vector<double> times;
    for (const ProfiledStep& step : profile.steps) times.push_back(1e6 * step[layer].*member);
    return significant(median(times));
  };
  const ProfiledStep& first = profile.steps.front();
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::vector<std::string> after;
    for (const int other : first[i].after) after.push_back(first[static_cast<std::size_t>(other)].name);
    table.add({first[i].name, fmt::format("{:.0f}", first[i].bytes), microseconds(i, &Layer::forward),
               microseconds(i, &Layer::backward), microseconds(i, &Layer::update), join(after)});
  }
  return table.to_text();
}

ProfiledJob::Cost measured_cost(const WorkloadWorker& worker, const ProfileCommand& command) {
  const std::vector<double> ratios =
      profiling_cost(worker, kPairs, std::max(1, command.options.steps / kBlocksOfSteps));
  const Interval cost = median_interval(ratios);
  return {cost.estimate - 1, cost.low - 1, cost.high - 1};
}

std::string words_of(const ProfiledJob::Cost& cost) {
  return fmt::format(
      "profiling costs {:.1f} % of the step [{:.1f}, {:.1f}] in processor time: the median of {} pairs of blocks\n",
      100 * cost.median, 100 * cost.low, 100 * cost.high, kPairs);
}

}  // namespace

int run_profile(const ProfileCommand& command) {
  const auto data = load_dataset(command.workload, {.seed = command.seed}).or_throw();
  const int batch = command.batch == 0 ? data->info().batch : command.batch;
  const WorkloadWorker worker{data, batch, command.seed};
  const Machine machine = this_machine();
  const TrainingProfile profile = profile_workload(worker, command.options);
  ProfiledJob job{.batch = static_cast<double>(batch),
                  .bandwidth = command.bandwidth,
                  .workload = command.workload,
                  .machine = machine.to_text(),
                  .options = command.options};
  if (command.overhead) job.cost = measured_cost(worker, command);

  std::string said = fmt::format("{}\n{}, {} samples a batch; medians of {} steps\n\n{}", machine.to_text(),
                                 command.workload, batch, profile.steps.size(), layer_table(profile));
  if (job.cost) said += "\n" + words_of(*job.cost);
  const std::string written = to_job(profile, job);
  print_to(command.out.empty() ? stderr : stdout, said);
  if (command.out.empty()) {
    print_to(stdout, written);
  } else {
    write_whole_file(command.out, written).or_throw();
  }
  return kSuccess;
}

}  // namespace stretto::command
