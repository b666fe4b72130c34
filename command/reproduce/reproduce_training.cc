#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "command/cli/exit_code.h"
#include "command/cli/table.h"
#include "command/machine/machine.h"
#include "command/reproduce/reproductions.h"
#include "command/statistics/statistics.h"
#include "command/train/report.h"
#include "command/train/training.h"
#include "stretto/observe/run_folder.h"
#include "stretto/observe/temporary_folder.h"
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

Json to_json(std::span<const Statement> statements) {
  Json out = Json::array();
  for (const Statement& statement : statements) {
    out.push_back({{"statement", statement.text},
                   {"paper", statement.paper},
                   {"here", statement.here},
                   {"holds", statement.holds}});
  }
  return out;
}

/// Where nothing is computed the throughput alone is left.
bool computes(const Experiment& experiment) {
  return !experiment.groups.front().options.no_gradients;
}

/// Curves of an experiment, which lie in the folder of its runs.
void say_curves(const Output& output, const Experiment& experiment) {
  const std::string& folder = experiment.groups.front().options.out;
  if (!folder.empty() && computes(experiment)) output.say(write_pictures(folder, experiment.groups));
}

/// The throughput of all experiments without gradients; how to get files where no folder is given for them.
void say_throughput(const ReproduceCommand& command, std::span<const Experiment> experiments) {
  std::vector<RunGroup> groups;
  bool curves = false;
  for (const Experiment& experiment : experiments) {
    curves |= computes(experiment);
    if (!computes(experiment)) groups.insert(groups.end(), experiment.groups.begin(), experiment.groups.end());
  }
  if (command.out.empty()) {
    command.output.say(fmt::format("--out DIR keeps {} as CSV and SVG, and records of every step",
                                   curves ? "curves over batches and over time" : "the throughput over the ranks"));
  } else if (!groups.empty()) {
    command.output.say(write_throughput(command.out, groups));
  }
}

}  // namespace

int run_reproduction(const Reproduction& reproduction, const ReproduceCommand& command) {
  std::string workload = reproduction.workload;
  auto task = load_task(workload, command.seed);
  const Machine machine = this_machine();
  std::optional<RunFolderLock> lock;  // runs lock folders within it, each while it lasts
  if (!command.out.empty()) lock.emplace(command.out);
  command.output.say(machine.to_text());

  Json json = {{"name", command.name}, {"experiments", Json::array()}};
  int code = kSuccess;
  Json holds = Json::array();  // of what is judged
  const auto judged = [&](const Judgement& judgement) {
    command.output.say(judgement.text);
    if (!judgement.holds) code = std::max<int>(code, kFailedRun);
    holds.push_back(judgement.holds);
    return to_json(judgement.statements);
  };
  std::optional<TemporaryFolder> scratch;
  ReproduceCommand recorded = command;
  if (reproduction.records && command.out.empty()) recorded.out = scratch.emplace().path();
  std::vector<Experiment> experiments = reproduction.experiments(recorded);
  for (Experiment& experiment : experiments) {
    if (const std::string& own = experiment.groups.front().options.workload; own != workload) {
      workload = own;
      task = load_task(workload, command.seed);
    }
    for (RunGroup& group : experiment.groups) group.options = resolved(group.options, task->facts());
    const TrainOptions& options = experiment.groups.front().options;
    command.output.say(fmt::format("\n{}\n{} on {} ranks, {} run{} of each; {}\n", experiment.title, options.workload,
                                   options.ranks, command.repeats, command.repeats == 1 ? "" : "s",
                                   conditions(options, task->facts().unit)));
    run_groups(experiment.groups, command.repeats, *task);
    say_result(command.output, experiment.groups);
    Json part = to_json(experiment.groups, machine);
    part["title"] = experiment.title;
    part["expected"] = experiment.expect;
    if (experiment.judge == nullptr) {
      command.output.say(expectations(experiment));
    } else {
      part["statements"] = judged(experiment.judge(experiment));
    }
    if (!command.out.empty()) say_curves(command.output, experiment);
    code = std::max(code, verdict(experiment.groups));
    json["experiments"].push_back(std::move(part));
  }
  if (reproduction.judge != nullptr) json["statements"] = judged(reproduction.judge(experiments));
  say_throughput(command, experiments);
  if (!holds.empty()) json["holds"] = holds;
  json["machine"] = machine.to_json();
  command.output.emit(json);
  return code;
}

}  // namespace stretto::command
