#include "command/train/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/machine/machine.h"
#include "command/machine/programs.h"
#include "command/run/program_ranks.h"
#include "command/run/started_master.h"
#include "command/train/report.h"
#include "command/train/run_set.h"
#include "command/train/torch_workload.h"
#include "command/train/training_options.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/cores.h"
#include "stretto/imbalance/pace.h"
#include "stretto/membership/job.h"
#include "stretto/observe/run_folder.h"
#include "stretto/train/job/run.h"

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
  if (const std::string lines = lines_table(groups); !lines.empty()) output.say(lines);
  say_caveats(output, groups);
}

namespace {

/// In the run's folder. A full disk costs this file and not the run.
void keep(const RatePrediction& prediction, const std::string& folder) {
  const auto opened = RunFolder::open(folder);
  const auto written = opened ? opened->write("prediction.json", to_json(prediction).dump(2) + '\n') : opened.error();
  if (!written) print_to(stderr, fmt::format("stretto: {}\n", written.error().message));
}

/// The ranks of the run, each of which is this command again.
ProgramRanks members_of(const TrainCommand& command) {
  ProgramRanks job = command.members;
  job.program = own_program();
  job.is_own = !job.hosts.empty() && is_stretto();
  job.reads_reports = true;
  return job;
}

/// `code`: is told the exit code where they do not reach the end.
JobResult run_members(const ProgramRanks& job, int& code) {
  EndOfPrograms end = run_program_ranks(job, "stretto train");
  code = code_of(end);
  JobResult result{.reports = std::move(end.reports), .reached_end = end.reached_end};
  result.exit_status.assign(result.reports.size(), 0);
  return result;
}

/// The rank leaves by SIGTERM, and its launcher says that a signal has come.
void hear_signals_as_a_member() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    if (std::signal(signal, SIG_DFL) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

}  // namespace

int run_train(const TrainCommand& command) {
  if (launched_as_member()) hear_signals_as_a_member();
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
    RunHooks hooks = watched(group.label, told);
    int code = kSuccess;
    if (command.starts_members()) {
      const ProgramRanks job = members_of(command);
      hooks.goes_on = StartedMaster::has_begun(job);
      hooks.start_members = [job, &code] { return run_members(job, code); };
    }
    std::optional<RunSummary> summary = run_training(command.options, *task, hooks);
    if (!summary) return code;  // another rank of the job has it, or nobody
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
