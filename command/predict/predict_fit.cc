#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command/cli/command_line.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/table.h"
#include "command/predict/described_job.h"
#include "stretto/predict/coarse/coarse_prediction.h"

namespace stretto::command {

namespace {

struct FitCommand {
  std::vector<std::string> files;
  Output output;
};

void describe_options(CommandLine& line, FitCommand& command) {
  line.positional_list("FILE", "Jobs with what was measured of them, as JSON; - is standard input.",
                       [&command](std::string_view, const std::string& file) { command.files.push_back(file); });
  line.heading("Output");
  command.output.add_option(line);
  line.example("stretto predict fit resnet.json vgg.json", "One threshold for a platform, from runs of two models.");
  describe_job_file(line);
  line.note(
      "Here each job has also what was measured, \"measured\": [{\"workers\": 1, \"steps_per_s\": 9.8}, {\"workers\": "
      "2, "
      "\"steps_per_s\": 18.1}], in asynchronous steps per second of all workers together; of several classes workers "
      "is "
      "a list, one number a class. One to seven workers will do. Say \"overlap\": false where transfers did not go on "
      "while layers were computed.");
  line.note(
      "The candidates are 0.1, 0.2, …, 1. Chosen is the one with the least mean error over all runs, of several the "
      "middle one. It belongs to a platform: put it into rho_threshold of further jobs there.");
}

std::vector<TrainingJob> jobs_in(const std::vector<std::string>& files) {
  std::vector<TrainingJob> jobs;
  for (const std::string& file : files) {
    jobs.push_back(read_job_file(file));
    if (jobs.back().measured.empty()) {
      throw Failure({Errc::bad_input, fmt::format("'{}': measured: missing; expected runs, as in "
                                                  "[{{\"workers\": 2, \"steps_per_s\": 18.1}}]",
                                                  file)});
    }
  }
  return jobs;
}

/// "3", "2+1".
std::string in_words(const std::vector<int>& counts) {
  return fmt::format("{}", fmt::join(counts, "+"));
}

std::string candidates_table(const ThresholdFit& fit) {
  Table table({"threshold", "mean error", "largest", "runs with links in order"});
  for (const auto& candidate : fit.candidates) {
    table.add({fmt::format("{:.1f}{}", candidate.rho_threshold,
                           candidate.rho_threshold == fit.rho_threshold ? " (chosen)" : ""),
               percent(candidate.mean_error), percent(candidate.max_error),
               fmt::format("{} of {}", candidate.in_order, fit.runs.size())});
  }
  return table.to_text();
}

std::string runs_table(const FitCommand& command, const std::vector<TrainingJob>& jobs, const ThresholdFit& fit) {
  Table table({"job", "workers", "measured", "links in order", "used", "links shared", "predicted", "error"});
  for (const auto& run : fit.runs) {
    const MeasuredRate& measured = jobs[run.job].measured[run.index];
    table.add({command.files[run.job], in_words(measured.counts), significant(measured.steps_per_second, 4),
               significant(run.predicted.in_order, 4), percent(run.predicted.utilization),
               significant(run.predicted.equal_shares, 4), significant(run.predicted.steps_per_second, 4),
               percent(run.error)});
  }
  return table.to_text();
}

nlohmann::ordered_json to_json(const FitCommand& command, const std::vector<TrainingJob>& jobs,
                               const ThresholdFit& fit) {
  nlohmann::ordered_json json{{"rho_threshold", fit.rho_threshold}, {"decided", fit.decided}};
  json["candidates"] = nlohmann::ordered_json::array();
  for (const auto& candidate : fit.candidates) {
    json["candidates"].push_back({{"rho_threshold", candidate.rho_threshold},
                                  {"mean_error", candidate.mean_error},
                                  {"max_error", candidate.max_error},
                                  {"fcfs", candidate.in_order}});
  }
  json["runs"] = nlohmann::ordered_json::array();
  for (const auto& run : fit.runs) {
    const MeasuredRate& measured = jobs[run.job].measured[run.index];
    json["runs"].push_back({{"file", command.files[run.job]},
                            {"workers", measured.counts},
                            {"measured", measured.steps_per_second},
                            {"fcfs", run.predicted.in_order},
                            {"rho", run.predicted.utilization},
                            {"ps", run.predicted.equal_shares},
                            {"chosen", name_of(run.predicted.chosen)},
                            {"predicted", run.predicted.steps_per_second},
                            {"error", run.error}});
  }
  return json;
}

int run(const FitCommand& command) {
  const std::vector<TrainingJob> jobs = jobs_in(command.files);
  const ThresholdFit fit = fit_threshold(jobs);
  command.output.say(candidates_table(fit) + "\n" + runs_table(command, jobs, fit));
  command.output.say(fit.decided ? fmt::format("rho_threshold {:.1f}", fit.rho_threshold)
                                 : fmt::format("rho_threshold {:.1f}, as good as any other: these runs do not tell the "
                                               "candidates apart. Measure more workers, until the links are busy.",
                                               fit.rho_threshold));
  command.output.emit(to_json(command, jobs, fit));
  return kSuccess;
}

}  // namespace

Subcommand predict_fit_command() {
  return make_command(
      {.name = "fit",
       .summary = "Fits the threshold of the formulas to runs of a few workers.",
       .introduction = "Chooses the utilization above which links count as shared, by the runs of a few "
                       "workers that were measured on a platform."},
      FitCommand(), describe_options, run);
}

}  // namespace stretto::command
