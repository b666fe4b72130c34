#include "command/profile/profile_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "command/cli/command_line.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/table.h"
#include "command/predict/step_times_argument.h"
#include "command/statistics/statistics.h"
#include "stretto/base/words.h"
#include "stretto/observe/whole_file.h"
#include "stretto/predict/measured/step_times.h"
#include "stretto/simulate/cluster.h"
#include "workloads/catalogue.h"

namespace stretto::command {

namespace {

/// A rank's steps, and by how much each ended after the first rank's.
struct RankSteps {
  std::vector<double> seconds, late;
  int last = 0;  // steps in which it was the last one; of a step that all end at once nobody is
};

std::vector<RankSteps> by_rank(const StepTimes& times) {
  std::vector<RankSteps> ranks(static_cast<std::size_t>(times.ranks()));
  for (std::size_t number = 0; number < times.steps(); ++number) {
    const auto step = times.step(number);
    const auto [first, last] = std::ranges::minmax_element(step);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].seconds.push_back(step[rank]);
      ranks[rank].late.push_back(static_cast<double>(step[rank]) - static_cast<double>(*first));
    }
    if (*last > *first) ++ranks[static_cast<std::size_t>(last - step.begin())].last;
  }
  return ranks;
}

std::string table_of(const StepTimes& times) {
  Table table({"rank", "mean, s", "sd", "min", "max", "late, mean", "late, p95", "the last"});
  int number = 0;
  for (const RankSteps& rank : by_rank(times)) {
    table.add({std::to_string(number++), significant(mean(rank.seconds)), significant(standard_deviation(rank.seconds)),
               significant(std::ranges::min(rank.seconds)), significant(std::ranges::max(rank.seconds)),
               significant(mean(rank.late)), significant(quantile(rank.late, 0.95)),
               percent(static_cast<double>(rank.last) / static_cast<double>(times.steps()))});
  }
  std::string text = fmt::format("{} ranks, {} steps; computed, without what they waited for others\n\n{}",
                                 times.ranks(), times.steps(), table.to_text());
  text += fmt::format("\n{} s between the first and the last of a step, in the mean\n", significant(times.skew()));
  if (const auto& exchange = times.exchange()) {
    text += fmt::format("{} s of a step in collectives, beside what they waited there\n", significant(*exchange));
  }
  for (const std::string& note : times.notes()) text += fmt::format("{}\n", note);
  return text;
}

// `stretto profile FILE` of a job that has been measured: what read_step_times() finds in `file` as CSV rows
// step,rank,seconds, in the file `out` or, where that is empty, on standard output; and a table of the ranks, who was
// how late, on the other of standard output and standard error. Returns an exit code. Throws Failure for a file that
// does not fit.
int run_measured_profile(const std::string& file, const std::string& out) {
  const StepTimes times = read_measured_times(file);
  if (out.empty()) {
    print_to(stderr, table_of(times));
    print_to(stdout, times.to_csv());
  } else {
    write_whole_file(out, times.to_csv()).or_throw();
    print_to(stdout, table_of(times));
  }
  return kSuccess;
}

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const WorkloadInfo& info : workload_catalogue()) names.emplace_back(info.name);
  return names;
}

double parse_rate(std::string_view option, const std::string& text) {
  try {
    return parse_network("bandwidth=" + text).bytes_per_second;
  } catch (const UsageError&) {
    reject(option, text, "expected a rate from 10kB/s to 1e9GB/s, in kB/s, MB/s, GB/s, Mbit/s or Gbit/s", "10Gbit/s");
  }
}

/// A workload, or what has been measured of a job.
void choose(ProfileCommand& command, std::string_view argument, const std::string& text) {
  std::error_code unknown;
  const auto names = workload_names();
  const bool known = std::ranges::find(names, text) != names.end();
  if (!known && std::filesystem::exists(text, unknown)) {
    command.measured = text;
  } else {
    one_of(command.workload, names)(argument, text);
  }
}

/// Throws UsageError for an option that says how to train.
void require_no_training(const ProfileCommand& command) {
  const ProfileCommand usual;
  const auto refuse = [&](const char* option, bool given) {
    if (given) throw UsageError(text(option, " with '", command.measured, "': expected a workload, which is trained"));
  };
  refuse("--batch", command.batch != usual.batch);
  refuse("--steps", command.options.steps != usual.options.steps);
  refuse("--warm-up", command.options.warm_up != usual.options.warm_up);
  refuse("--traced", command.options.traced != usual.options.traced);
  refuse("--seed", command.seed != usual.seed);
  refuse("--overhead", command.overhead);
  refuse("--bandwidth", command.bandwidth != usual.bandwidth);
}

void describe_options(CommandLine& line, ProfileCommand& command) {
  line.positional("WORKLOAD|FILE", CommandLine::Presence::required,
                  "What to train: " + join(workload_names()) +
                      ". A module of your own: stretto/train/profile.h. Or what has been measured of a job: a folder "
                      "with the traces of PyTorch's profiler, a Horovod timeline, a CSV file of rows "
                      "step,rank,seconds, or the folder of a run.",
                  [&command](std::string_view argument, const std::string& text) { choose(command, argument, text); });
  line.heading("What is measured");
  line.option("--batch", "N", "Samples a batch. Default: the workload's.", into(command.batch, 1, 1'000'000, "32"));
  line.option("--steps", "N",
              "Steps that are written, each with times of its own: more show more of what varies. Default 50.",
              into(command.options.steps, 1, 100'000, "50"));
  line.option("--warm-up", "N", "Steps before anything is timed. Default 5.",
              into(command.options.warm_up, 1, 100'000, "5"));
  line.option("--traced", "N",
              "Steps in which each operation is timed, to see how a pass is divided among layers; their own times "
              "are not written. Default 5.",
              into(command.options.traced, 1, 100'000, "5"));
  line.option("--seed", "N", "Of model and batches. Default 1.", into(command.seed, 0, "1"));
  line.flag("--overhead", "",
            "Measures what profiling costs, too: blocks of steps with and without it, in turns. Takes some 40 times "
            "--steps more.",
            [&command](std::string_view, const std::string&) { command.overhead = true; });
  line.heading("The job that is written");
  line.option(
      "--bandwidth", "RATE",
      "Of each link of a server, as predict needs it; stretto bench link measures one. Default 10Gbit/s.",
      [&command](std::string_view option, const std::string& text) { command.bandwidth = parse_rate(option, text); });
  line.option("--out", "FILE",
              "Writes the job there, or the steps of FILE, and a table to standard output. Default: these go to "
              "standard output, and the table to standard error.",
              writable_file_into(command.out));
  line.example("stretto profile digits | stretto predict fine - --workers 8", "How fast eight such workers would be.");
  line.example("stretto profile vowels --out vowels.json", "A table of its layers, and the job in a file.");
  line.example("stretto advise vowels.json --ranks 16 --imbalance cloud",
               "Which algorithm sixteen of them should take.");
  line.example("stretto profile traces/ --out steps.csv", "Who was late in a job that PyTorch's profiler has traced.");
  line.note(
      "What is written is a job of one worker, which stretto predict and stretto advise read: docs/prediction.md has "
      "its keys. A trace does not say which layers wait for which, so of a FILE it is how long each rank computed in "
      "each step, as CSV, which stretto advise and stretto predict run read, as FILE itself. A layer is a module that "
      "holds parameters, with the "
      "operations behind it that hold none; where "
      "branches meet there is a layer of 0 bytes. Forward, backward and update of each step are timed as wholes, and "
      "so is when each parameter's gradient is ready; a few traced steps before them say how the time in between is "
      "divided. One worker computes with one thread, unless OMP_NUM_THREADS says otherwise.");
}

}  // namespace

Subcommand profile_command(std::function<int(const ProfileCommand&)> run) {
  return make_command({.name = "profile",
                       .summary = "Measures what one worker takes for each layer, for predictions.",
                       .introduction = "Trains a workload with one worker and measures what it takes for each layer: "
                                       "forward, backward, update, and bytes. Writes it as a job that predict and "
                                       "advise read."},
                      ProfileCommand(), describe_options, [run = std::move(run)](const ProfileCommand& command) {
                        if (command.measured.empty()) return run(command);
                        require_no_training(command);
                        return run_measured_profile(command.measured, command.out);
                      });
}

}  // namespace stretto::command
