#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command/cli/command_line.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/table.h"
#include "command/predict/step_times_argument.h"
#include "command/predict/trial.h"
#include "command/statistics/statistics.h"
#include "stretto/train/recipes/recipes.h"

namespace stretto::command {

namespace {

/// The algorithms that need no argument.
std::string without_argument() {
  std::vector<std::string_view> names;
  for (const RecipeInfo& recipe : recipes()) {
    if (!recipe.argument.starts_with(':')) names.push_back(recipe.name);
  }
  return fmt::format("{}", fmt::join(names, ","));
}

struct RunCommand {
  StepTimesArgument times;
  std::string algorithms = without_argument();
  Output output;
};

void describe_options(CommandLine& line, RunCommand& command) {
  command.times.add_options(line);
  line.heading("The algorithms");
  line.option("--algorithms", "LIST",
              "As stretto train takes them; settings may follow, as in \"sync, local, H = 16, wagma:4, tau = 20\". "
              "Default: all that need no argument, which leaves out eager-deadline, ssp and k-sync.",
              into(command.algorithms));
  line.heading("Output");
  command.output.add_option(line);
  line.example("stretto predict run --ranks 16 --compute 40ms --imbalance cloud",
               "On a cloud like that of the papers.");
  line.example("stretto predict run times.csv --algorithms sync,eager-quorum:6", "With the step times of a run.");
  line.note(
      "What runs is the algorithms themselves, with their collectives and their rules for late ranks, on a virtual "
      "clock: see docs/prediction.md. A step computes as long as FILE says, whole steps of all ranks together, in "
      "blocks of up to ten that are drawn for each replica; or as --compute and --imbalance draw it. Messages take "
      "what "
      "--network says; everything else takes no time. A row is the mean over the replicas, with its 95 % interval, or "
      "of the steps of all of them: from the begin of one to that of the next, by quantiles. Of ideal: as fast as if "
      "nobody ever waited and messages took no time.");
}

int run(const RunCommand& command) {
  const std::vector<Choice> choices = parse_choices("--algorithms", command.algorithms);
  const StepTimesSource source = command.times.read();
  const StepTimes& all = source.all();
  const std::vector<StepTimes> replicas = source.replicas();
  Table table(
      {"algorithm", "batches/s", "of ideal", "step p50, s", "p95", "p99", "fresh", "staleness", "most", "waited"});
  nlohmann::ordered_json json{{"ranks", all.ranks()}, {"mean_s", all.mean()}, {"skew_s", all.skew()}};
  json["algorithms"] = nlohmann::ordered_json::array();
  for (const Trial& trial : try_out(choices, replicas, source.hosts(), command.times.seed)) {
    const auto quantile_of = [&](double p) { return quantile(trial.steps, p); };
    table.add({trial.choice.name(), rate_of(trial), percent(trial.of_ideal), significant(quantile_of(0.5)),
               significant(quantile_of(0.95)), significant(quantile_of(0.99)), percent(trial.fresh_share),
               significant(trial.staleness_mean), std::to_string(trial.staleness_max), percent(trial.wait_share)});
    nlohmann::ordered_json object = to_json(trial);
    object["step_p50_s"] = quantile_of(0.5);
    object["step_p95_s"] = quantile_of(0.95);
    object["step_p99_s"] = quantile_of(0.99);
    json["algorithms"].push_back(std::move(object));
  }
  command.output.say(
      fmt::format("{} ranks, steps of {} s in the mean, {} s between the first and the last of a step\n\n{}",
                  all.ranks(), significant(all.mean()), significant(all.skew()), table.to_text()));
  for (const std::string& note : source.notes()) print_to(stderr, note + "\n");
  json["notes"] = source.notes();
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
