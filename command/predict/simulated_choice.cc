#include "command/predict/simulated_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "command/cli/values.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/dispenser/dispenser.h"
#include "stretto/observe/run_folder.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/observe/whole_file.h"
#include "stretto/simulate/cluster.h"
#include "stretto/train/job/run.h"
#include "stretto/train/job/run_plan.h"
#include "stretto/train/recipes/recipes.h"
#include "stretto/train/replica/replica.h"

namespace stretto::command {

namespace {

/// A task of steps that take their time, and of nothing else: what it hands out is never computed with.
class Steps final : public TrainingTask {
 public:
  explicit Steps(std::uint64_t samples) {
    facts_.name = "steps";
    facts_.unit = "step";
    facts_.samples = samples;
  }

  const TaskFacts& facts() const override { return facts_; }
  std::unique_ptr<RankTask> start_rank(const RankTaskOptions&) const override {
    throw std::logic_error("a task without gradients");
  }

 private:
  TaskFacts facts_;
};

TrainOptions options_of(const Choice& choice, int ranks) {
  TrainOptions options{.algorithm = choice.algorithm, .ranks = ranks, .sync_every = choice.sync_every};
  if (!choice.data.empty()) options.data = choice.data;
  for (const auto& [name, value] : choice.options) options.algorithm_options.set(name, value);
  // Dedicated servers make no steps, and can have no part of the data.
  const bool dedicated = options.algorithm_options.word("servers", "").starts_with("dedicated:");
  if (options.data.empty() && dedicated) options.data = "shared";
  return options;
}

Steps task_of(const TrainOptions& options) {
  return Steps(std::max<std::uint64_t>(options.steps * static_cast<std::uint64_t>(options.ranks), 1024));
}

/// Seconds between the begins of a rank's steps, as it has recorded them.
void add_steps(const std::string& records, std::vector<double>& steps) {
  double last = -1;
  const auto take = [&](const StepRecord& record) {
    const double begin = seconds(record.begin);
    if (last >= 0) steps.push_back(begin - last);
    last = begin;
    return std::string();
  };
  (void)read_step_records(records, take).or_throw();
}

/// A run whose steps take what its imbalance says, of a nanosecond each without one, and that leaves nothing behind.
TrainOptions in_virtual_time(TrainOptions run) {
  run.workload = "steps";
  run.steps = 1;
  run.epochs = 0;
  run.batch = 1;
  run.imbalance = "none";
  run.pace = Duration{1};
  run.time_scale = 1;
  run.simulated = true;
  run.no_gradients = true;
  run.compute_threads = 1;
  run.seats = 0;
  run.model_buckets = 1;
  run.model_layers.clear();
  if (labels_a_rank(run.data) > 0) run.data.clear();  // steps have none
  run.checkpoint_every = run.evaluate_every = 0;
  run.evaluate = run.final_model = "average";
  run.resume.clear();
  run.out.clear();
  return run;
}

std::string base_of(const std::string& algorithm) {
  return algorithm.substr(0, algorithm.find(':'));
}

/// Elsewhere the buckets of a model take as long as one.
bool shares_out_buckets(const std::string& algorithm) {
  const RecipeInfo* recipe = find_recipe(base_of(algorithm));
  return recipe != nullptr && std::ranges::find(recipe->options, std::string("servers")) != std::end(recipe->options);
}

// A Duration ends at 9e9 seconds; deadlines are behind what happens.
constexpr double kLongestTime = 4e9;
constexpr std::uint64_t kLargestModel = 1'000'000'000'000'000;

/// In seconds. Throws UsageError for one that simulated ranks do not take.
double longest_step(const StepTimes& times) {
  double longest = 0;
  for (std::size_t step = 0; step < times.steps(); ++step)
    longest = std::max<double>(longest, std::ranges::max(times.step(step)));
  if (longest <= seconds(kLongestDuration)) return longest;
  throw UsageError(
      fmt::format("a step of a rank takes {:g} s; expected at most {:g} s", longest, seconds(kLongestDuration)));
}

constexpr std::string_view kExample = "sync,eager-quorum:4,local,H=16";

std::string trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return std::string(text);
}

RunPlan plan_of(const Choice& choice, int ranks) {
  const TrainOptions options = in_virtual_time(options_of(choice, ranks));
  return plan_run(options, task_of(options).facts());
}

std::optional<AlgorithmShape> shape_in(const RunPlan& plan, int ranks) {
  const RecipeInfo& recipe = *plan.algorithm.recipe;
  return recipe.shape == nullptr ? std::nullopt : recipe.shape(plan.recipe, ranks);
}

/// "H = 16" or "tau = 20", of the algorithm before it in a list.
void add_setting(Choice& choice, std::string_view option, const std::string& written) {
  const std::size_t equals = written.find('=');
  const std::string name = trimmed(written.substr(0, equals)), value = trimmed(written.substr(equals + 1));
  const RecipeInfo& recipe = *find_recipe(base_of(choice.algorithm));
  std::vector<std::string> known(recipe.options.begin(), recipe.options.end());
  if (recipe.local_steps != 0) known.insert(known.begin(), "H");
  if (std::ranges::find(known, name) == known.end()) {
    const std::string hint =
        known.empty() ? "it has no settings" : "there is no such setting; " + suggestion(name, known);
    reject(option, fmt::format("{}, {}", choice.algorithm, written), hint, kExample);
  }
  const bool again =
      name == "H" ? choice.sync_every != 0 : std::ranges::count(choice.options, name, &Choice::Option::first) != 0;
  if (again) reject(option, fmt::format("{}, {}", choice.name(), written), "expected each setting once", kExample);
  if (name == "H") {
    choice.sync_every =
        static_cast<std::uint64_t>(parse_integer(option, value, 1, std::numeric_limits<std::int64_t>::max(), "H=16"));
    return;
  }
  AlgorithmOptions().set(name, value);  // throws where the value does not fit
  choice.options.emplace_back(name, value);
}

}  // namespace

int SimulatedHosts::buckets() const {
  return static_cast<int>(
      std::clamp<std::uint64_t>((model_bytes + kBucketBytes - 1) / kBucketBytes, 1, kMostModelBuckets));
}

std::string Choice::name() const {
  std::string name = algorithm;
  if (sync_every != 0) name += fmt::format(", H = {}", sync_every);
  for (const auto& [option, value] : options) name += fmt::format(", {} = {}", option, value);
  return name;
}

void require_virtual_time(const StepTimes& times, const SimulatedHosts& hosts, std::uint64_t steps) {
  if (hosts.model_bytes > kLargestModel) {
    throw UsageError(fmt::format("a model of {:g} bytes; expected at most {:g}", static_cast<double>(hosts.model_bytes),
                                 static_cast<double>(kLargestModel)));
  }
  const double longest = longest_step(times);
  const double rate = parse_network(hosts.network).bytes_per_second;
  // At a server's card the model comes and goes once for each rank in a step.
  const double messages = 4.0 * times.ranks() * static_cast<double>(hosts.model_bytes) / rate;
  if (const double run = static_cast<double>(steps) * (longest + messages); run > kLongestTime) {
    throw UsageError(fmt::format(
        "{} steps of {} ranks, each of up to {:g} s and with a model of {:g} bytes over {:g} bytes/s, may last {:g} s; "
        "expected at most {:g} s, as of fewer --steps",
        steps, times.ranks(), longest, static_cast<double>(hosts.model_bytes), rate, run, kLongestTime));
  }
}

Outcome simulate(const Choice& choice, const StepTimes& times, const SimulatedHosts& hosts, std::uint64_t seed,
                 std::uint64_t steps, const std::filesystem::path& within) {
  TrainOptions run = options_of(choice, times.ranks());
  run.seed = seed;
  Outcome outcome = simulate_run(run, times, hosts, steps, within);
  if (const auto shaped = shape_of(choice, times.ranks())) {
    outcome.unseen = unseen_batches(shaped->shape, times.ranks(), outcome.staleness_mean, outcome.round_batches);
  }
  return outcome;
}

void require_simulation(const TrainOptions& run) {
  (void)resolved(in_virtual_time(run), Steps(1024).facts());
}

Outcome simulate_run(const TrainOptions& run, const StepTimes& times, const SimulatedHosts& hosts, std::uint64_t steps,
                     const std::filesystem::path& within) {
  STRETTO_CHECK(run.ranks == times.ranks(), run.ranks, " ranks, and times of ", times.ranks());
  (void)longest_step(times);
  const TemporaryFolder folder(within);
  const std::string trace = folder.path() + "/steps.csv";
  write_whole_file(trace, times.to_csv()).or_throw();

  TrainOptions options = in_virtual_time(run);
  options.steps = steps != 0 ? steps : times.steps();
  options.imbalance = "trace:" + trace;
  options.out = folder.path() + "/run";
  options.network = hosts.network;
  options.model_bytes = hosts.model_bytes;
  if (shares_out_buckets(run.algorithm)) options.model_buckets = hosts.buckets();
  if (run.algorithm_options.word("layerwise", "no") == "yes") options.model_layers = hosts.layers;
  const auto summary = run_training(options, task_of(options), {.progress = [](const RunProgress&) {}});
  if (!summary) throw UsageError("ranks of a simulation are all in one process: start it by itself");
  if (summary->lost_records > 0) {
    throw Failure({Errc::io, text("no room for the records in ", folder.path(), ": ", summary->why_lost)});
  }

  Outcome outcome{.rate = summary->throughput,
                  .ideal = times.ideal_rate(options.steps),
                  .fresh_share = summary->fresh_share,
                  .staleness_mean = summary->staleness_mean,
                  .staleness_max = summary->staleness_max,
                  .wait_share = summary->wait_share,
                  .steps = {},
                  .round_batches = static_cast<double>(summary->deposits.applied) /
                                   static_cast<double>(std::max<std::uint64_t>(1, summary->rounds))};
  outcome.steps = recorded_steps(options.out, options.ranks);
  return outcome;
}

std::vector<double> recorded_steps(const std::string& folder, int ranks) {
  const RunFolder run = RunFolder::open(folder).or_throw();
  std::vector<double> steps;
  for (int rank = 0; rank < ranks; ++rank) add_steps(run.records_file(rank), steps);
  return steps;
}

std::optional<ShapedChoice> shape_of(const Choice& choice, int ranks) {
  const RunPlan plan = plan_of(choice, ranks);
  const auto shape = shape_in(plan, ranks);
  if (!shape) return std::nullopt;
  return ShapedChoice{.shape = *shape, .shared_data = plan.sharing == Sharing::shared};
}

std::uint64_t whole_periods(const Choice& choice, int ranks, std::uint64_t steps) {
  const RunPlan plan = plan_of(choice, ranks);
  std::uint64_t last = 0;  // rounds after the last step
  std::uint64_t period =
      plan.recipe.local_steps >= kMeetsAtTheEnd ? 1 : std::max<std::uint64_t>(1, plan.recipe.local_steps);
  if (const auto shape = shape_in(plan, ranks)) {
    const auto* groups = std::get_if<GroupRoundShape>(&shape->exchange);
    period = groups != nullptr ? groups->full_every : shape->every;
    last = groups != nullptr ? 1 : 0;
  }
  const std::uint64_t whole = (steps + last + period - 1) / period * period - last;
  return period <= kLongestRun ? whole : steps;
}

double unseen_batches(const AlgorithmShape& shape, int ranks, double staleness, double round_batches) {
  if (std::holds_alternative<GroupRoundShape>(shape.exchange)) return std::numeric_limits<double>::quiet_NaN();
  const double each = std::holds_alternative<PushShape>(shape.exchange) ? 1 : round_batches;
  return staleness * each + static_cast<double>(shape.every - 1) / 2 * (ranks - 1);
}

std::vector<Choice> parse_choices(std::string_view option, const std::string& list) {
  std::vector<Choice> choices;
  for (const std::string& part : split_policies(list)) {
    const std::string written = trimmed(part);
    if (written.find('=') != std::string::npos && !choices.empty()) {
      add_setting(choices.back(), option, written);
    } else if (find_recipe(base_of(written)) == nullptr) {
      reject(option, written, "expected one of the algorithms that stretto train --help lists", kExample);
    } else {
      choices.push_back({written});
    }
  }
  if (choices.empty()) reject(option, list, "expected at least one algorithm", kExample);
  std::set<std::string> names;
  for (const Choice& choice : choices) {
    if (!names.insert(choice.name()).second) reject(option, choice.name(), "expected each algorithm once", kExample);
  }
  return choices;
}

SimulatedHosts hosts_of_run(const std::string& folder) {
  // The messages of so small a model take no time worth mentioning. A simulated run of a real model has it, too: it
  // does not say how large that model is.
  constexpr std::uint64_t kSmallModel = 4096;
  const std::string config = RunFolder::open(folder).or_throw().read("config.json").or_throw();
  const auto wrong = [&folder](const std::string& what) {
    return Failure({Errc::bad_input, fmt::format("'{}/config.json': {}", folder, what)});
  };
  const auto json = nlohmann::json::parse(config, nullptr, false);
  if (!json.is_object()) throw wrong("expected the JSON object that a run of stretto has written");
  SimulatedHosts hosts{.network = "", .model_bytes = kSmallModel};
  if (const auto bytes = json.find("model_bytes"); bytes != json.end()) {
    if (!bytes->is_number_unsigned())
      throw wrong(fmt::format("model_bytes: expected bytes; found {:.60}", bytes->dump()));
    hosts.model_bytes = std::max(bytes->get<std::uint64_t>(), kSmallModel);
  }
  if (const auto network = json.find("network"); network != json.end()) {
    if (!network->is_string()) throw wrong(fmt::format("network: expected a text; found {:.60}", network->dump()));
    hosts.network = *network;
  }
  try {
    parse_network(hosts.network);
  } catch (const UsageError& error) {
    throw wrong(error.what());
  }
  return hosts;
}

}  // namespace stretto::command
