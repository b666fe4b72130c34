#include "command/profile/profile_command.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "command/cli/command_line.h"
#include "command/cli/output.h"
#include "command/profile/measured_profile.h"
#include "stretto/base/words/suggest.h"
#include "stretto/simulate/network_spec.h"
#include "workloads/catalogue.h"

namespace stretto::command {

namespace {

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
