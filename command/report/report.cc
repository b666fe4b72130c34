#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "command/cli/command_line.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/predict/advice.h"
#include "command/predict/step_times_argument.h"
#include "command/report/page.h"
#include "command/report/recorded_run.h"
#include "stretto/observe/whole_file.h"

namespace stretto::command {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostRuns = 16;  // side by side
constexpr const char* kName = "report.html";

struct ReportCommand {
  std::vector<std::string> runs;
  std::string out;
  std::string algorithms;
  int replicas = 3;
  int steps = 100;
};

void describe_options(CommandLine& line, ReportCommand& command) {
  line.positional_list("RUN",
                       "The folder of a run (stretto train --out), or of a comparison (stretto compare --out): of it "
                       "the runs of the lowest seed, in the order in which they ran.",
                       [&command](std::string_view, const std::string& run) { command.runs.push_back(run); });
  line.option("--out", "FILE", "The page. Default: report.html in RUN, of several RUN in the current folder.",
              [&command](std::string_view option, const std::string& file) {
                if (file.empty()) reject(option, file, "expected the name of a file", "report.html");
                command.out = file;
              });
  line.heading("What another algorithm would have done");
  line.option("--algorithms", "LIST",
              "As stretto advise takes them, beside sync; none leaves this part out. Default: as for stretto advise "
              "the ten best of some dozens.",
              into(command.algorithms, {"none"}));
  line.option("--replicas", "N", "Simulates each so often, with other steps of the run. Default 3.",
              into(command.replicas, 1, 10'000, "10"));
  line.option("--steps", "N", "Steps of each rank in a simulation. Default 100.",
              into(command.steps, 1, 1'000'000, "100"));
  line.example("stretto report runs/first", "The page is runs/first/report.html; it opens without a network.");
  line.example("stretto report runs/a runs/b --out both.html", "Two runs side by side, on the same axes.");
  line.example("stretto report runs/q --algorithms sync,eager-quorum:6", "With two algorithms instead of all.");
  line.note(
      "The page shows the time line of the ranks, their step times, who was late and what it cost, how stale gradients "
      "were, loss and accuracy, and what each other algorithm would have done with the step times of the first run "
      "(stretto advise). A run that still goes on, or was cut short, is shown as far as it has been recorded, and the "
      "page says so.");
}

std::string default_name(const std::vector<std::string>& runs) {
  return runs.size() == 1 ? (fs::path(runs.front()) / kName).string() : std::string(kName);
}

/// Before the work, which may take a while.
void require_writable(const std::string& file) {
  std::error_code unknown;
  if (fs::is_directory(file, unknown)) {
    throw UsageError(
        fmt::format("--out {}: is a folder; expected the name of a file, as in --out {}/{}", file, file, kName));
  }
  const std::string part = file + ".part";  // as write_whole_file() has it
  if (!std::ofstream(part, std::ios::app)) {
    throw UsageError(fmt::format("--out {}: cannot be written ({}); expected a file in a folder that exists", file,
                                 std::strerror(errno)));
  }
  fs::remove(part, unknown);
}

std::string messages_of(const TrainOptions& options) {
  if (!options.simulated) return "Messages take next to no time, as among the ranks of one host";
  return fmt::format("Messages as in that run: network {}", options.network);
}

/// With the step times of a run; `why` says why there is none.
std::optional<ReportAdvice> advice_for(const ReportCommand& command, const std::string& folder, const RecordedRun& run,
                                       const std::vector<Choice>& asked, std::string& why) {
  StepTimesArgument times;
  times.file = folder;
  times.steps = command.steps;
  times.replicas = command.replicas;
  std::optional<StepTimesSource> source;
  try {
    source = times.read();
  } catch (const Failure& failure) {
    why = fmt::format("Nothing can be said yet: {}.", failure.error().message);
    return std::nullopt;
  }
  const StepTimes& all = source->all();
  if (all.ranks() == 1) {
    why = "One rank alone waits for nobody.";
    return std::nullopt;
  }
  const std::vector<StepTimes> replicas = source->replicas();
  std::vector<Choice> choices = asked;
  if (asked.empty()) {
    choices =
        pick_finalists(all_settings_for(all.ranks(), source->hosts()), replicas, source->hosts(), times.seed).choices;
  }
  std::string messages = messages_of(run.options);
  for (const std::string& note : source->notes()) messages += ". " + note;
  return ReportAdvice{run.name, messages,
                      recommend(std::move(choices), replicas, all.skew(), source->hosts(), times.seed)};
}

int run(const ReportCommand& command) {
  const PageParts parts = page_parts();
  if (parts.library.empty()) {
    throw Failure(
        {Errc::unavailable, "this build has no charts: it was made without dygraphs (Debian package libjs-dygraphs)"});
  }
  std::vector<Choice> choices;
  const bool advise = command.algorithms != "none";
  if (advise && !command.algorithms.empty()) choices = parse_choices("--algorithms", command.algorithms);
  std::vector<std::string> folders;
  for (const std::string& path : command.runs) {
    for (std::string& folder : run_folders_in(path)) folders.push_back(std::move(folder));
  }
  if (folders.size() > kMostRuns) {
    throw UsageError(fmt::format("{} runs: expected at most {} side by side", folders.size(), kMostRuns));
  }
  const std::string out = command.out.empty() ? default_name(command.runs) : command.out;
  require_writable(out);
  std::vector<RecordedRun> runs;
  for (const std::string& folder : folders) runs.push_back(read_recorded_run(folder));
  std::string why = advise ? "" : "It was not asked for.";
  std::optional<ReportAdvice> advice;
  if (advise) advice = advice_for(command, folders.front(), runs.front(), choices, why);
  write_whole_file(out, page_of(parts, page_data(runs, advice, why))).or_throw();
  for (const RecordedRun& each : runs) {
    for (const std::string& gap : each.gaps) print_to(stderr, fmt::format("{}: {}\n", each.name, gap));
    if (each.summary) continue;
    print_to(stderr, fmt::format("{}: has not ended, or was cut short: shown as far as it was recorded\n", each.name));
  }
  print_to(stdout, fmt::format("{}: what happened, for a browser\n", out));
  return kSuccess;
}

}  // namespace

Subcommand report_command() {
  return make_command(
      {.name = "report",
       .summary = "Makes a page of runs: their time line, who was late, what another algorithm would have saved.",
       .introduction = "Makes a page for a browser that shows what happened in a run, or in several side by side: one "
                       "HTML file, which needs no network and no other file."},
      ReportCommand(), describe_options, run);
}

}  // namespace stretto::command
