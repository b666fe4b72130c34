#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "command/cli/exit_code.h"
#include "command/machine/machine.h"
#include "command/train/pictures.h"
#include "command/train/report.h"
#include "command/train/training.h"
#include "command/train/training_options.h"
#include "stretto/observe/run_folder.h"
#include "stretto/train/job/run.h"

namespace stretto::command {

int run_compare(const CompareCommand& command) {
  const auto task = load_task(command.options.workload, command.options.seed);
  const Machine machine = this_machine();
  std::vector<RunGroup> groups;
  for (const std::string& algorithm : command.algorithms) {
    TrainOptions options = command.options;
    options.algorithm = algorithm;
    groups.push_back({algorithm, resolved(options, task->facts()), {}});
  }
  const TrainOptions& options = groups.front().options;
  std::optional<RunFolderLock> lock;  // runs lock folders within it, each while it lasts
  if (!options.out.empty()) lock.emplace(options.out);
  const std::uint64_t last_seed = options.seed + static_cast<std::uint64_t>(command.repeats) - 1;
  const std::string seeds =
      command.repeats == 1 ? fmt::format("seed {}", options.seed)
                           : fmt::format("{} runs of each, seeds {} to {}", command.repeats, options.seed, last_seed);
  command.output.say(fmt::format("{}\n{} on {} ranks, {}; {}\n", machine.to_text(), options.workload, options.ranks,
                                 seeds, conditions(options, task->facts().unit)));
  run_groups(groups, command.repeats, *task);
  say_result(command.output, groups);
  command.output.say(options.out.empty() ? "--out DIR keeps curves, records of every step, and traces for Perfetto"
                                         : write_pictures(options.out, groups));
  if (const std::string gain = conclusion(groups); !gain.empty()) command.output.say("\n" + gain);
  command.output.emit(to_json(groups, machine));
  return verdict(groups);
}

}  // namespace stretto::command
