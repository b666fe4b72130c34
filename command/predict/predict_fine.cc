#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "command/cli/command_line.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/table.h"
#include "command/predict/described_job.h"
#include "command/statistics/statistics.h"
#include "stretto/base/error.h"
#include "stretto/observe/whole_file.h"
#include "stretto/predict/fine/step_export.h"
#include "stretto/predict/fine/step_simulation.h"

namespace stretto::command {

namespace {

struct FineCommand {
  JobArgument job;
  int steps = 0;  // 0: the job's own
  std::uint64_t seed = 1;
  Duration latency{0};
  bool buckets = false;
  bool server_shared = false;
  std::string trace;
  std::string goal;
  std::string chakra;
  int trace_steps = 20;
  Output output;
};

void describe_options(CommandLine& line, FineCommand& command) {
  command.job.add_options(line);
  line.heading("The simulation");
  line.option("--steps", "N", "Steps of each worker. Default: what the job says, else 1000.",
              into(command.steps, 1, 1'000'000'000, "1000"));
  line.option("--seed", "N", "Of the profiled steps that are drawn. Default 1.", into(command.seed, 0, "1"));
  line.option("--latency", "DURATION", "Of each message, beside the time of its bytes. Default 0.",
              into(command.latency, "50us"));
  line.flag(
      "--buckets", "",
      "Gradients travel in buckets of 1 MiB, then 25 MiB, as DistributedDataParallel fills them, instead of layer "
      "by layer.",
      [&command](std::string_view, const std::string&) { command.buckets = true; });
  line.flag("--server-shared", "",
            "Updates share the server's processor, instead of going on side by side, one for each worker.",
            [&command](std::string_view, const std::string&) { command.server_shared = true; });
  line.heading("Output");
  line.option("--trace", "FILE", "Writes when each operation ran, as a Chrome trace that Perfetto opens.",
              writable_file_into(command.trace));
  line.option("--goal", "FILE",
              "Writes the same steps for LogGOPSim: who computes for how long, who sends what to whom. An allreduce is "
              "the messages of a ring.",
              writable_file_into(command.goal));
  line.option("--chakra", "NAME",
              "Writes them as execution traces of MLCommons Chakra, for ASTRA-sim: NAME.0.et, NAME.1.et, …, a file for "
              "each worker and, behind them, each server. An allreduce is one operation.",
              [&command](std::string_view option, const std::string& name) {
                require_writable_file(option, name.empty() ? name : chakra_file(name, 0));
                command.chakra = name;
              });
  line.option("--trace-steps", "N", "So many steps of each worker are in what these three write. Default 20.",
              into(command.trace_steps, 1, 1'000'000'000, "20"));
  command.output.add_option(line);
  line.example("stretto predict fine job.json", "Throughput, and how long steps take.");
  line.example("stretto predict fine job.json --steps 100 --trace steps.json",
               "The same of 100 steps, with their time line.");
  line.example("stretto predict fine job.json --goal steps.goal --trace-steps 5",
               "Its first five steps, to be simulated by LogGOPSim.");
  describe_job_file(line);
  line.note("This simulation needs layers.");
  line.note(
      "Simulates every transfer and computation of every layer, in the order in which they wait for each other, by the "
      "algorithm of Li et al., \"Predicting Throughput of Distributed Stochastic Gradient Descent\" (IEEE TPDS 2022), "
      "2.2, "
      "corrected as docs/lab/prediction.md says. The first tenth of the steps is not counted, nor what comes when the "
      "first "
      "worker is done. A synchronous job with servers whose links are not said is simulated twice, with links that all "
      "share and with links that serve one transfer after the other; the prediction is the mean of both rates.");
}

const char* links_of(const TrainingJob& job, const FinePrediction& prediction) {
  if (job.mode == Coordination::allreduce) return "ring";
  if (prediction.equal_shares && prediction.in_order) return "mean";
  return name_of(prediction.equal_shares ? LinkSharing::equal_shares : LinkSharing::in_order);
}

std::string to_table(const TrainingJob& job, const FinePrediction& prediction) {
  Table table({"links", "steps/s", "examples/s", "s/step", "p50", "p95", "p99"});
  const auto workers = static_cast<double>(job.workers());
  const auto row = [&](const char* name, const SimulatedSteps& simulated) {
    const auto at = [&](double p) { return significant(quantile(simulated.step_seconds, p), 4); };
    table.add({name, significant(simulated.steps_per_s, 4), significant(simulated.examples_per_s, 4),
               significant(workers / simulated.steps_per_s, 4), at(0.5), at(0.95), at(0.99)});
  };
  const bool ring = job.mode == Coordination::allreduce;
  if (prediction.equal_shares) row(ring ? "ring" : "shared", *prediction.equal_shares);
  if (prediction.in_order) row("in order", *prediction.in_order);
  if (prediction.equal_shares && prediction.in_order) {
    table.add({"mean of both", significant(prediction.steps_per_s, 4), significant(prediction.examples_per_s, 4),
               significant(workers / prediction.steps_per_s, 4), "–", "–", "–"});
  }
  return table.to_text();
}

nlohmann::ordered_json to_json(const SimulatedSteps& simulated) {
  nlohmann::ordered_json json{{"steps_per_s", simulated.steps_per_s},
                              {"examples_per_s", simulated.examples_per_s},
                              {"class_steps_per_s", simulated.class_steps_per_s},
                              {"operations", simulated.operations}};
  nlohmann::ordered_json& step = json["step_s"];
  step["mean"] = mean(simulated.step_seconds);
  for (const auto& [name, p] : {std::pair("p50", 0.5), {"p95", 0.95}, {"p99", 0.99}}) {
    step[name] = quantile(simulated.step_seconds, p);
  }
  return json;
}

nlohmann::ordered_json to_json(const TrainingJob& job, const FinePrediction& prediction) {
  nlohmann::ordered_json json{{"workers", job.workers()},
                              {"mode", name_of(job.mode)},
                              {"link", links_of(job, prediction)},
                              {"overlap", job.overlap},
                              {"steps", job.steps},
                              {"steps_per_s", prediction.steps_per_s},
                              {"seconds_per_step", static_cast<double>(job.workers()) / prediction.steps_per_s},
                              {"examples_per_s", prediction.examples_per_s}};
  if (prediction.equal_shares) json["ps"] = to_json(*prediction.equal_shares);
  if (prediction.in_order) json["fcfs"] = to_json(*prediction.in_order);
  json["notes"] = job.notes;
  return json;
}

/// For --goal, with the messages of each allreduce, or for --chakra.
StepExport export_of(const FineCommand& command, const TrainingJob& job, bool ring) {
  return {job,
          {.steps = std::min(command.trace_steps, job.steps),
           .seed = command.seed,
           .buckets = command.buckets,
           .ring = ring}};
}

void write_goal(const std::string& name, const StepExport& steps) {
  std::string all = fmt::format("num_ranks {}\n", steps.ranks());
  for (int rank = 0; rank < steps.ranks(); ++rank) all += goal_of_rank(rank, steps.rank(rank)) + "\n";
  write_whole_file(name, all).or_throw();
}

void write_chakra(const std::string& name, const StepExport& steps) {
  for (int rank = 0; rank < steps.ranks(); ++rank)
    write_whole_file(chakra_file(name, rank), chakra_of_rank(rank, steps.rank(rank))).or_throw();
}

int run(const FineCommand& command) {
  TrainingJob job = command.job.read();
  if (command.steps > 0) job.steps = command.steps;
  StepSimulationOptions options{.seed = command.seed,
                                .message_latency = seconds(command.latency),
                                .buckets = command.buckets,
                                .server_shared = command.server_shared};
  std::optional<StepExport> goal, chakra;
  if (!command.goal.empty()) goal.emplace(export_of(command, job, true));
  if (!command.chakra.empty()) chakra.emplace(export_of(command, job, false));
  std::optional<StepTrace> trace;
  if (!command.trace.empty()) {
    trace.emplace(job, command.trace, command.trace_steps);
    options.on_operation = [&trace](const SimulatedOperation& operation) { trace->add(operation); };
  }
  const FinePrediction prediction = predict_fine(job, options);
  if (trace) trace->complete().or_throw();
  if (goal) write_goal(command.goal, *goal);
  if (chakra) write_chakra(command.chakra, *chakra);
  command.output.say(fmt::format("{} workers, {} steps of each, {}\n\n{}", job.workers(), job.steps,
                                 job.overlap ? "layers travel while others are computed" : "one phase after the other",
                                 to_table(job, prediction)));
  for (const std::string& note : job.notes) command.output.say(note);
  command.output.emit(to_json(job, prediction));
  return kSuccess;
}

}  // namespace

Subcommand predict_fine_command() {
  return make_command({.name = "fine",
                       .summary = "By simulating each layer's transfers and computations.",
                       .introduction = "Predicts how many steps a job makes in a second by simulating each layer's "
                                       "transfers and computations."},
                      FineCommand(), describe_options, run);
}

}  // namespace stretto::command
