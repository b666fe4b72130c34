#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "command/cli/exit_code.h"
#include "command/cli/print.h"
#include "command/cli/watch.h"
#include "command/machine/machine.h"
#include "command/train/pictures.h"
#include "command/train/report.h"
#include "command/train/training.h"
#include "command/train/training_options.h"
#include "command/train/watched_training.h"
#include "stretto/observe/run_folder.h"
#include "stretto/train/job/run.h"

namespace stretto::command {

namespace {

/// In the run's folder. A full disk costs this file and not the run.
void keep(const RatePrediction& prediction, const std::string& folder) {
  const auto opened = RunFolder::open(folder);
  const auto written = opened ? opened->write("prediction.json", to_json(prediction).dump(2) + '\n') : opened.error();
  if (!written) print_to(stderr, fmt::format("stretto: {}\n", written.error().message));
}

}  // namespace

int run_train(const TrainCommand& command) {
  const auto task = load_task(command.options.workload, command.options.seed);
  const Machine machine = this_machine();
  RunGroup group{command.options.algorithm, resolved(command.options, task->facts()), {}};
  std::optional<RatePrediction> prediction;
  if (command.predict_from != 0) {
    WatchedRun run = train_watched(command, *task, group.label);
    group.runs.push_back(std::move(run.summary));
    prediction = std::move(run.prediction);
  } else {
    std::set<std::string> told;
    std::optional<RunSummary> summary = run_training(command.options, *task, watched(group.label, told));
    if (!summary) return kSuccess;  // another rank of the job has it
    group.runs.push_back(std::move(*summary));
  }

  const std::vector<RunGroup> groups = {std::move(group)};
  const TrainOptions& options = groups.front().options;
  command.output.say(fmt::format("{}\n{} ranks, seed {}; {}\n", machine.to_text(), options.ranks, options.seed,
                                 conditions(options, task->facts().unit)));
  say_result(command.output, groups);
  if (prediction) {
    command.output.say(prediction->to_text());
    if (!options.out.empty()) keep(*prediction, options.out);
  }
  if (!options.out.empty()) command.output.say(write_pictures(options.out, groups));
  nlohmann::ordered_json json = to_json(groups.front().runs.front(), std::nullopt);
  json.update(to_json(groups, machine), false);
  json.erase("runs");
  json.erase("paired");
  if (command.predict_from != 0) json["prediction"] = prediction ? to_json(*prediction) : nullptr;
  command.output.emit(json);
  return verdict(groups);
}

}  // namespace stretto::command
