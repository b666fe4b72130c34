#include "command/reproduce/reproduce_training.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command/cli/exit_code.h"
#include "command/cli/table.h"
#include "command/machine/machine.h"
#include "command/statistics/statistics.h"
#include "command/train/report.h"
#include "command/train/training.h"
#include "stretto/train/job/run.h"

namespace stretto::command {

namespace {

using Json = nlohmann::ordered_json;

// The results, and below them the expected ones.
std::string expectations(const Experiment& experiment) {
  Table table({"", "speed-up", "ideal for the delays drawn", "share of the ideal", "loss over the first's"});
  std::string expected;
  for (std::size_t i = 0; i < experiment.groups.size(); ++i) {
    const RunGroup& group = experiment.groups[i];
    std::vector<double> ideal, share, loss;
    for (std::size_t run = 0; run < group.runs.size(); ++run) {
      const RunSummary& summary = group.runs[run];
      ideal.push_back(ideal_speedup(summary));
      share.push_back(share_of_ideal(summary));
      const auto& first = experiment.groups.front().runs[run];
      if (summary.loss && first.loss) loss.push_back(*summary.loss / *first.loss);
    }
    const std::vector<double> over_first = speedups(experiment.groups.front(), group);
    table.add({group.label, with_spread(mean(over_first), standard_deviation(over_first)) + "×",
               significant(mean(ideal)) + "×", with_spread(mean(share), standard_deviation(share)),
               loss.empty() ? "–" : with_spread(mean(loss), standard_deviation(loss), 4)});
    expected += fmt::format("expected, {}: {}\n", group.label, experiment.expect[i]);
  }
  return table.to_text() + expected;
}

}  // namespace

int run_reproduction(const Reproduction& reproduction, const ReproduceCommand& command) {
  const auto task = load_task(reproduction.workload, command.seed);
  const Machine machine = this_machine();
  command.output.say(machine.to_text());

  Json json = {{"name", command.name}, {"experiments", Json::array()}};
  int code = kSuccess;
  Json holds = Json::array();  // of the experiments that are judged
  for (Experiment& experiment : reproduction.experiments(command)) {
    for (RunGroup& group : experiment.groups) group.options = resolved(group.options, task->facts());
    const TrainOptions& options = experiment.groups.front().options;
    command.output.say(fmt::format("\n{}\n{} on {} ranks, {} run{} of each; {}\n", experiment.title, options.workload,
                                   options.ranks, command.repeats, command.repeats == 1 ? "" : "s",
                                   conditions(options, task->facts().unit)));
    run_groups(experiment.groups, command.repeats, *task);
    say_result(command.output, experiment.groups);
    if (experiment.judge == nullptr) {
      command.output.say(expectations(experiment));
    } else {
      const Judgement judgement = experiment.judge(experiment);
      command.output.say(judgement.text);
      if (!judgement.holds) code = std::max<int>(code, kFailedRun);
      holds.push_back(judgement.holds);
    }
    code = std::max(code, verdict(experiment.groups));
    Json part = to_json(experiment.groups, machine);
    part["title"] = experiment.title;
    part["expected"] = experiment.expect;
    json["experiments"].push_back(std::move(part));
  }
  if (!holds.empty()) json["holds"] = holds;
  json["machine"] = machine.to_json();
  command.output.emit(json);
  return code;
}

}  // namespace stretto::command
