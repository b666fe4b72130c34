#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "command/cli/command_line.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/table.h"
#include "command/machine/programs.h"
#include "command/predict/advice.h"
#include "command/predict/lifetime.h"
#include "command/predict/step_times_argument.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/observe/whole_file.h"

namespace stretto::command {

namespace {

struct AdviseCommand {
  StepTimesArgument times;
  std::string algorithms;
  Duration life{0};
  std::string plot;
  Output output;
};

/// The name of a picture that can be written.
Setter picture_into(std::string& out) {
  return [&out](std::string_view option, const std::string& file) {
    if (!file.ends_with(".svg") && !file.ends_with(".png")) {
      reject(option, file, "expected a name that ends with .svg or .png", "advice.svg");
    }
    require_writable_file(option, file);
    out = file;
  };
}

void describe_options(CommandLine& line, AdviseCommand& command) {
  command.times.add_options(line);
  line.heading("The settings");
  line.option("--algorithms", "LIST",
              "As stretto train takes them, beside sync; settings may follow, as the table names them: \"local, H = "
              "16, wagma:4, "
              "tau = 20, ps-async\". Default: of some dozens of quorums, groups, periods and servers "
              "the ten best, found by when ranks wait for one another under each; up to 16 ranks also d-psgd, sgp, "
              "osgp, gossip-grad, ad-psgd, easgd, easgd-async and easgd-grid, each with its defaults.",
              into(command.algorithms));
  line.heading("The machines");
  line.option(
      "--life", "TIME",
      "How long a rank's machine is there, in the mean: also says what the changes of members that follow cost, "
      "beside restarts from checkpoints.",
      [&command](std::string_view option, const std::string& text) {
        into(command.life, "2h")(option, text);
        if (command.life == Duration::zero()) reject(option, text, "expected a time above 0", "2h");
      });
  line.heading("Output");
  line.option("--plot", "FILE",
              "Draws them: the rate of each setting with its interval, its share of fresh contributions, and what the "
              "recommended one gains over the skew. An SVG or a PNG, by the end of the name. Needs matplotlib.",
              picture_into(command.plot));
  command.output.add_option(line);
  line.example("stretto advise times.csv", "With the step times of anybody's run: rows step,rank,seconds.");
  line.example("stretto advise runs/first", "With those of a run of stretto train.");
  line.example("stretto advise times.csv --plot advice.svg", "The same as a picture.");
  line.example("stretto advise traces",
               "With those of a job of PyTorch: a folder with a trace of its profiler for each rank.");
  line.example("stretto advise profile.json --ranks 16 --imbalance cloud",
               "With those of one worker, as stretto profile writes them.");
  line.example("stretto advise --ranks 32 --compute 40ms --imbalance cloud", "Before there is a run.");
  line.note(
      "Each setting is run on a virtual clock (stretto predict run), all with the same step times. The fastest wins; "
      "of "
      "those that are as fast within 1 % the one that leaves the fewest batches unseen: computed when a batch is "
      "applied, and not in the weights that it was computed on. That counts the same for rounds, servers and own "
      "steps; it is not known of models that are averaged in groups, with neighbours or in pairs. A setting is "
      "worthwhile where it gains "
      "5 % or more over synchronous training. Intervals are of 95 %, over the replicas. Faster steps are not all: what "
      "staleness costs in steps depends on the model. Bound is what Theorem 6.3 of the eager-SGD paper (PPoPP 2020) "
      "says "
      "of it: where each round takes the gradients of at least Q of P ranks, the oldest of them tau rounds old (most), "
      "the learning rate has to fall, and the steps to grow, by no more than a factor in proportion to "
      "sqrt(tau (P - Q)) / P.");
}

std::string factor(const Interval& gain) {
  if (std::isnan(gain.low)) return fmt::format("{:.2f}", gain.estimate);  // of one replica
  return fmt::format("{:.2f} [{:.2f}, {:.2f}]", gain.estimate, gain.low, gain.high);
}

nlohmann::ordered_json with_bound(const Trial& trial, int ranks) {
  nlohmann::ordered_json json = to_json(trial);
  json["quorum_bound"] = quorum_bound(trial, ranks);
  return json;
}

nlohmann::ordered_json to_json(const Trial& trial, const Trial& sync, int ranks) {
  nlohmann::ordered_json json = with_bound(trial, ranks);
  const Interval gained = gain(trial, sync);
  json["gain"] = gained.estimate;
  json["gain_interval"] = {gained.low, gained.high};
  return json;
}

/// What nobody who computes so long can exceed: of all settings the most, for some run for a few steps more.
double ideal_rate(const std::vector<Trial>& trials) {
  double ideal = 0;
  for (const Trial& trial : trials) ideal = std::max(ideal, mean(trial.rates) / trial.of_ideal);
  return ideal;
}

/// Has the script draw what --json prints. The picture is moved to where it should be when it is whole: a disk that is
/// full is told as for every other file.
void draw_advice(const nlohmann::ordered_json& advice, const std::string& picture) {
  const TemporaryFolder folder;
  const std::string data = folder.path() + "/advice.json";
  const std::string drawn = folder.path() + "/advice" + std::filesystem::path(picture).extension().string();
  write_whole_file(data, advice.dump()).or_throw();
  const std::string why = draw("plot_advice.py", {data, drawn});
  if (!why.empty()) throw Failure({Errc::io, fmt::format("--plot={}: {}", picture, why)});
  write_whole_file(picture, read_whole_file(drawn, FileContent::bytes).or_throw()).or_throw();
}

int run(const AdviseCommand& command) {
  if (!command.plot.empty()) require_matplotlib("--plot");
  std::vector<Choice> choices;
  if (!command.algorithms.empty()) choices = parse_choices("--algorithms", command.algorithms);
  const StepTimesSource source = command.times.read();
  const StepTimes& all = source.all();
  const std::vector<StepTimes> replicas = source.replicas();
  Finalists finalists;
  if (command.algorithms.empty()) {
    finalists =
        pick_finalists(all_settings_for(all.ranks(), source.hosts()), replicas, source.hosts(), command.times.seed);
    choices = finalists.choices;
  }
  const Recommendation advice = recommend(std::move(choices), replicas, all.skew(), source.hosts(), command.times.seed);

  Table table(
      {"setting", "batches/s", "times sync", "of ideal", "fresh", "staleness", "most", "unseen", "bound", "waited"});
  nlohmann::ordered_json json{{"ranks", all.ranks()}, {"mean_s", all.mean()}, {"skew_s", all.skew()}};
  for (const Trial& trial : advice.trials) {
    table.add({trial.choice.name(), rate_of(trial), factor(gain(trial, advice.sync)), percent(trial.of_ideal),
               percent(trial.fresh_share), significant(trial.staleness_mean), std::to_string(trial.staleness_max),
               significant(trial.unseen), significant(quorum_bound(trial, all.ranks())), percent(trial.wait_share)});
    json["settings"].push_back(to_json(trial, advice.sync, all.ranks()));
  }
  json["ideal_batches_per_s"] = ideal_rate(advice.trials);
  std::string compared;
  if (!finalists.by_shape.empty()) {
    const std::size_t others = finalists.choices.size() - std::min(kFinalists, finalists.by_shape.size());
    compared = fmt::format("; {} settings were compared by when their ranks wait, and the best of them run{}",
                           finalists.by_shape.size(),
                           others == 0 ? "" : fmt::format(", with {} that only a run can tell of", others));
    for (const Trial& trial : finalists.by_shape) json["by_shape"].push_back(with_bound(trial, all.ranks()));
  }
  command.output.say(
      fmt::format("{} ranks, steps of {} in the mean, {} of skew: between the first and the last of a "
                  "step{}\n\n{}\n{}",
                  all.ranks(), in_milliseconds(all.mean()), in_milliseconds(all.skew()), compared, table.to_text(),
                  advice.verdict));
  if (command.life > Duration::zero()) {
    const LifetimeCost cost = cost_of_lifetime(advice.winner.choice, all.ranks(), all.mean(), seconds(command.life));
    command.output.say(cost.sentence);
    json["life"] = {{"life_s", seconds(command.life)},
                    {"goes_on", cost.goes_on},
                    {"changes_an_hour", cost.changes},
                    {"lost_share", cost.lost_share},
                    {"lost_by_restarts", cost.lost_by_restarts}};
  }
  json["recommended"] = advice.winner.choice.name();
  json["verdict"] = advice.verdict;
  for (const GainAt& gain : advice.gains) json["gains"].push_back({{"skew_s", gain.skew}, {"gain", gain.gain}});
  const auto from = crossover(advice.gains);
  json["crossover_s"] = from ? nlohmann::ordered_json(*from) : nlohmann::ordered_json();
  if (!command.plot.empty()) draw_advice(json, command.plot);
  for (const std::string& note : source.notes()) print_to(stderr, note + "\n");
  json["notes"] = source.notes();
  command.output.emit(json);
  return kSuccess;
}

}  // namespace

Subcommand advise_command() {
  return make_command(
      {.name = "advise",
       .summary = "Says which algorithm, quorum or group trains fastest with the step times of a job.",
       .introduction = "Says which algorithm trains a job fastest, with which quorum, group or period, from how long "
                       "its steps take, and how much ranks have to differ for it to be worthwhile."},
      AdviseCommand(), describe_options, run);
}

}  // namespace stretto::command
