#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command/cli/command_line.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/table.h"
#include "command/commands.h"
#include "command/predict/simulated_choice.h"
#include "command/predict/step_times_argument.h"
#include "command/statistics/statistics.h"

namespace stretto::command {

namespace {

struct RunCommand {
  StepTimesArgument times;
  std::string algorithms = "sync,eager-solo,eager-majority,eager-quorum,wagma,local,ps-async";
  Output output;
};

void describe_options(CommandLine& line, RunCommand& command) {
  command.times.add_options(line);
  line.heading("What is predicted");
  line.option("--algorithms", "LIST",
              "As stretto train takes them. Default: sync, eager-solo, eager-majority, eager-quorum, wagma, local and "
              "ps-async.",
              into(command.algorithms));
  line.heading("Output");
  command.output.add_option(line);
  line.example("stretto predict run --ranks 16 --compute 40ms --imbalance cloud",
               "On a cloud like that of the papers.");
  line.example("stretto predict run times.csv --algorithms sync,eager-quorum:6", "With the step times of a run.");
  line.note(
      "What runs is the algorithms themselves, with their collectives and their rules for late ranks, on a virtual "
      "clock: see docs/prediction.md. A step computes as long as FILE says, whole steps of all ranks together, in "
      "blocks of ten that are drawn for each replica; or as --compute and --imbalance draw it. Messages take what "
      "--network says; everything else takes no time. A row is the mean over the replicas, with its 95 % interval, or "
      "of the steps of all of them: from the begin of one to that of the next, by quantiles. Of ideal: as fast as if "
      "nobody ever waited and messages took no time.");
}

struct Row {
  std::vector<double> rates, ideals, fresh, stale, waited, steps;
  std::uint64_t stale_max = 0;
};

Row predict(const Choice& choice, const StepTimes& all, const RunCommand& command) {
  Row row;
  for (int replica = 0; replica < command.times.replicas; ++replica) {
    const std::uint64_t seed = command.times.seed + static_cast<std::uint64_t>(replica);
    const Outcome outcome =
        simulate(choice, command.times.replica(all, replica), {command.times.network, command.times.model_bytes}, seed);
    row.rates.push_back(outcome.rate);
    row.ideals.push_back(outcome.rate / outcome.ideal);
    row.fresh.push_back(outcome.fresh_share);
    row.stale.push_back(outcome.staleness_mean);
    row.waited.push_back(outcome.wait_share);
    row.stale_max = std::max(row.stale_max, outcome.staleness_max);
    row.steps.insert(row.steps.end(), outcome.steps.begin(), outcome.steps.end());
  }
  return row;
}

int run(const RunCommand& command) {
  const std::vector<Choice> choices = parse_choices("--algorithms", command.algorithms);
  const StepTimes all = command.times.read();
  Table table(
      {"algorithm", "batches/s", "of ideal", "step p50, s", "p95", "p99", "fresh", "staleness", "most", "waited"});
  nlohmann::ordered_json json{{"ranks", all.ranks()}, {"mean_s", all.mean()}, {"skew_s", all.skew()}};
  json["algorithms"] = nlohmann::ordered_json::array();
  for (const Choice& choice : choices) {
    const Row row = predict(choice, all, command);
    const Interval rate = mean_interval(row.rates);
    const auto quantile_of = [&](double p) { return quantile(row.steps, p); };
    table.add({choice.name(), with_spread(rate.estimate, rate.high - rate.estimate), percent(mean(row.ideals)),
               significant(quantile_of(0.5)), significant(quantile_of(0.95)), significant(quantile_of(0.99)),
               percent(mean(row.fresh)), significant(mean(row.stale)), std::to_string(row.stale_max),
               percent(mean(row.waited))});
    json["algorithms"].push_back({{"algorithm", choice.name()},
                                  {"batches_per_s", rate.estimate},
                                  {"batches_per_s_interval", {rate.low, rate.high}},
                                  {"of_ideal", mean(row.ideals)},
                                  {"step_p50_s", quantile_of(0.5)},
                                  {"step_p95_s", quantile_of(0.95)},
                                  {"step_p99_s", quantile_of(0.99)},
                                  {"fresh_share", mean(row.fresh)},
                                  {"staleness_mean", mean(row.stale)},
                                  {"staleness_max", row.stale_max},
                                  {"wait_share", mean(row.waited)}});
  }
  command.output.say(
      fmt::format("{} ranks, steps of {} s in the mean, {} s between the first and the last of a step\n\n{}",
                  all.ranks(), significant(all.mean()), significant(all.skew()), table.to_text()));
  command.output.emit(json);
  return kSuccess;
}

}  // namespace

Subcommand predict_run_command() {
  return make_command(
      {.name = "run",
       .summary = "By running the algorithms on a virtual clock, with step times that were measured or are drawn.",
       .introduction = "Predicts how fast each algorithm would train a job, how fresh its gradients and how long its "
                       "waits, by running it on a virtual clock with step times that were measured or are drawn."},
      RunCommand(), describe_options, run);
}

}  // namespace stretto::command
