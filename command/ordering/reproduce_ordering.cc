#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "command/cli/command_line.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/progress.h"
#include "command/cli/table.h"
#include "command/machine/machine.h"
#include "command/machine/programs.h"
#include "command/ordering/ordering_commands.h"
#include "command/ordering/ordering_scale.h"
#include "command/statistics/statistics.h"
#include "stretto/observe/whole_file.h"

namespace stretto::command {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPaper = "paper";

struct OrderingCommand {
  ScaleOptions options;
  std::string calibration = kPaper;
  std::string out;
  Output output;
};

void describe_options(CommandLine& line, OrderingCommand& command) {
  line.heading("The experiment");
  line.flag("--strong", "", "24,576 samples a step over all ranks, instead of 32 on each.",
            [&command](std::string_view, const std::string&) { command.options.strong = true; });
  line.option("--calibration", "FILE",
              "What threads and messages cost: paper (the default), a fit to six numbers of the paper, or a file that "
              "stretto bench ordering-costs has written.",
              into(command.calibration, {kPaper}));
  line.option("--ranks", "N", "Up to so many of the paper's numbers of ranks. Default 24576.",
              into(command.options.most_ranks, 96, 24'576, "1536"));
  line.option("--steps", "N", "Of each. Default 100.", into(command.options.steps, 5, 100'000, "100"));
  line.option("--seed", "N", "Default 1.", into(command.options.seed, 0, "1"));
  line.heading("Output");
  line.option("--out", "DIR", "ordering.csv, and, where matplotlib is to be had, pictures like the paper's.",
              into(command.out));
  command.output.add_option(line);
  line.example("stretto reproduce ordering", "Half a minute.");
  line.example("stretto reproduce ordering --calibration here.json", "With this machine's threads.");
  line.note(
      "All of it is simulated: no rank runs. The job is the paper's (ResNet-50, 32 samples a rank, 7 cores and an "
      "accelerator a rank, 6 ranks a host). \"overhead\" is from ready to issued, in the mean over ranks; \"waiting\" "
      "what ranks wait in the transfer for the last one to begin it. Under topo the overhead is not small because "
      "less is waited for: what ranks wait for each other moves into the transfer.");
}

OrderingCalibration calibration_of(const OrderingCommand& command, const Machine& machine) {
  if (command.calibration == kPaper) return paper_calibration();
  OrderingCalibration calibration =
      read_calibration(read_whole_file(command.calibration).or_throw(), command.calibration).or_throw();
  if (calibration.machine != machine.cpu) {
    command.output.say(fmt::format("warning: {} was measured on another machine ({}; this one: {})",
                                   command.calibration, calibration.machine, machine.cpu));
  }
  return calibration;
}

std::string introduction(const OrderingCalibration& calibration) {
  if (calibration.source == kPaper) {
    return "Costs: a fit to six numbers that the paper has for 24,576 ranks (gains of gs, nbcs and topo, overheads of "
           "coordinator and topo, scaling loss). What is said of these six is no evidence; the rest is not fitted.\n";
  }
  return fmt::format("Costs of threads and messages: measured on {}, {}. Network, job and cores: the paper's.\n",
                     calibration.machine, calibration.date);
}

std::string scale_table(const ScaleRuns& runs, const std::string& experiment) {
  Table table({"ranks, ordering", "step, ms", "p99", "computing", "overhead", "waiting", "transfer", "background, ms",
               "gain", "paper"});
  for (const ScaleRun& run : runs.all()) {
    if (run.experiment != experiment) continue;
    const OrderedSteps& steps = run.steps;
    const double step = steps.mean_step();
    const bool compared = run.scheme != OrderingScheme::coordinator;
    const bool in_paper = compared && experiment == "weak" && run.ranks == kPaperRanks;
    table.add({fmt::format("{} {}", run.ranks, name_of(run.scheme)), fmt::format("{:.1f}", 1e3 * median(steps.steps)),
               fmt::format("{:.1f}", 1e3 * quantile(steps.steps, 0.99)), percent(steps.computing / step),
               percent(steps.overhead / step), percent(steps.waiting / step), percent(steps.transfer / step),
               fmt::format("{:.1f}", 1e3 * steps.processor),
               compared ? percent(runs.gain(experiment, run.ranks, run.scheme)) : "",
               in_paper ? percent(paper_gain(run.scheme), 0) : ""});
  }
  return table.to_text();
}

std::string network_table(const ScaleRuns& runs, int ranks) {
  Table table({"network", "window", "step, ms", "with topo", "gain", "paper"});
  for (const OrderedNetwork& network : ordered_networks()) {
    const auto step = [&](OrderingScheme scheme) {
      return fmt::format("{:.1f}", 1e3 * runs.at(network.name, ranks, scheme).mean_step());
    };
    table.add({network.name, percent(network.window, 0), step(OrderingScheme::coordinator), step(OrderingScheme::topo),
               percent(runs.gain(network.name, ranks, OrderingScheme::topo)), fmt::format("{} %", network.gain)});
  }
  return table.to_text();
}

Json to_json(const ScaleRun& run, const ScaleRuns& runs) {
  const OrderedSteps& steps = run.steps;
  Json correlation = Json::array();
  for (const double value : steps.skew_correlation) correlation.push_back(std::isnan(value) ? Json() : Json(value));
  return {{"experiment", run.experiment},
          {"ranks", run.ranks},
          {"ordering", name_of(run.scheme)},
          {"samples", run.samples},
          {"step_seconds",
           {{"mean", steps.mean_step()}, {"p50", median(steps.steps)}, {"p99", quantile(steps.steps, 0.99)}}},
          {"computing_seconds", steps.computing},
          {"overhead_seconds", steps.overhead},
          {"waiting_seconds", steps.waiting},
          {"transfer_seconds", steps.transfer},
          {"background_processor_seconds", steps.processor},
          {"syncs", steps.syncs},
          {"skew_seconds", steps.skew},
          {"skew_autocorrelation", correlation},
          {"gain", runs.gain(run.experiment, run.ranks, run.scheme)}};
}

void write_files(const OrderingCommand& command, const ScaleRuns& runs) {
  if (command.out.empty()) return;
  const auto csv = std::filesystem::path(command.out) / "ordering.csv";
  const std::string pictures = command.options.strong ? "ordering-strong.svg"
                                                      : "ordering-weak.svg, ordering-parts.svg, "
                                                        "ordering-networks.svg";
  command.output.say(write_and_draw(csv, runs.csv(), "plot_ordering.py", pictures).sentence);
}

int run(const OrderingCommand& command) {
  const Machine machine = this_machine();
  const OrderingCalibration calibration = calibration_of(command, machine);
  if (!command.out.empty()) require_writable_folder("--out", command.out);
  command.output.say(introduction(calibration));

  ScaleChecks checks;
  std::optional<Progress> progress(std::in_place, "ordering", "runs", 0);
  const ScaleRuns runs = predict_scale(calibration.costs, command.options, checks.seconds,
                                       [&](std::size_t done) { progress->update(done); });
  progress.reset();
  checks.same_bits = repeats_to_the_bit(calibration.costs, command.options.seed);
  checks.apart = largest_difference(calibration.costs, command.options);
  const std::string experiment = command.options.strong ? "strong" : "weak";
  command.output.say(scale_table(runs, experiment));
  if (!command.options.strong) {
    command.output.say(network_table(runs, scale_ranks(command.options).back()));
  }
  const Judgement judgement = judge_scale(runs, command.options, calibration.source == kPaper, checks);
  command.output.say(judgement.text);
  write_files(command, runs);

  Json json{{"calibration", calibration.source}, {"calibrated_on", calibration.machine}, {"runs", Json::array()}};
  for (const ScaleRun& run : runs.all()) json["runs"].push_back(to_json(run, runs));
  json["statements"] = Json::array();
  for (const Statement& statement : judgement.statements) {
    json["statements"].push_back({{"statement", statement.text},
                                  {"paper", statement.paper},
                                  {"here", statement.here},
                                  {"holds", statement.holds}});
  }
  json["holds"] = judgement.holds;
  json["seconds"] = checks.seconds;
  json["machine"] = machine.to_json();
  command.output.emit(json);
  return judgement.holds ? kSuccess : kFailedRun;
}

}  // namespace

Subcommand reproduce_ordering_command() {
  return make_command({.name = "ordering",
                       .summary = "What five ways to order gradients cost on up to 24,576 ranks, simulated.",
                       .introduction = "What five ways to agree on one order of gradients cost on 6 to 24,576 ranks, "
                                       "simulated (Pumma et al., CCGrid 2020, sections III and V)."},
                      OrderingCommand(), describe_options, run);
}

}  // namespace stretto::command
