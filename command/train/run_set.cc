#include "command/train/run_set.h"

#include <fmt/format.h>

#include <cctype>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "command/cli/own_ranks.h"
#include "command/cli/progress.h"
#include "command/predict/simulated_choice.h"
#include "stretto/base/error.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/train/job/run.h"
#include "stretto/train/job/run_plan.h"

namespace stretto::command {
namespace {

RunSummary run_once(const RunGroup& group, int repeat, int repeats, const TrainingTask& task,
                    std::set<std::string>& told) {
  TrainOptions options = group.options;
  options.seed += static_cast<std::uint64_t>(repeat);
  if (!options.out.empty()) {
    options.out += fmt::format("/{}", run_folder_name(group, options.seed));
  }
  const std::string label = repeats == 1 ? group.label : fmt::format("{} ({} of {})", group.label, repeat + 1, repeats);
  std::optional<RunSummary> summary = run_training(options, task, watched(label, told));
  STRETTO_CHECK(summary.has_value(), "a process that started its own ranks has no summary");
  summary->algorithm = group.label;
  return std::move(*summary);
}

}  // namespace

RunHooks watched(const std::string& label, std::set<std::string>& told, std::function<double()> predicted) {
  // Shared: a std::function must be copyable, and the bar lives as long as the hook.
  auto bar = std::make_shared<std::unique_ptr<Progress>>();
  RunHooks hooks;
  hooks.progress = [bar, label, &told, predicted = std::move(predicted)](const RunProgress& progress) {
    if (!*bar) *bar = std::make_unique<Progress>(label, "batches", progress.total);
    if (!progress.notice.empty() && told.insert(progress.notice).second) (*bar)->line(progress.notice);
    if (predicted) (*bar)->expect(predicted());
    (*bar)->update(progress.batches);
  };
  return hooks;
}

namespace {

void require_steps(const TrainCommand& command, const TaskFacts& facts) {
  const std::uint64_t from = command.predict_from;
  const auto ranks = static_cast<std::uint64_t>(command.options.ranks);
  const std::uint64_t steps = plan_run(command.options, facts).total_batches / ranks;
  if (steps >= RateWatch::least(from)) return;
  throw UsageError(
      fmt::format("--predict={}: this run has {} steps a rank; expected at least {}: {} that do not count, "
                  "{} to predict from, and as many to compare with; --predict={} needs fewer",
                  from, steps, RateWatch::least(from), RateWatch::left_out(from), from, RateWatch::kFewest));
}

/// The simulations of one run. Their files are gone with this object, also of one that was killed.
class RunSimulations {
 public:
  explicit RunSimulations(const TrainOptions& options) : options_(options) {}

  /// In a process of its own, which stays on a core from then on.
  double rate(const StepTimes& occupied) const {
    stay_on_a_core(0);
    // A message takes next to nothing: what it takes is in the times, with all else that a round costs.
    const SimulatedHosts hosts{.network = "latency=1us,bandwidth=10GB/s", .model_bytes = 1024};
    return simulate_run(options_, occupied, hosts, RateWatch::kSimulated, folder_.path()).rate;
  }

 private:
  const TrainOptions options_;
  const TemporaryFolder folder_;
};

}  // namespace

WatchedRun train_watched(const TrainCommand& command, const TrainingTask& task, const std::string& label) {
  require_steps(command, task.facts());
  const RunSimulations simulations(command.options);
  RateWatch watch(command.options.ranks, command.predict_from,
                  [&simulations](const StepTimes& occupied) { return simulations.rate(occupied); });
  std::set<std::string> told;
  RunHooks hooks = watched(label, told, [&watch] { return watch.predicted(); });
  RunProgress last;
  const auto tell = [&last, show = hooks.progress](std::vector<std::string> lines) {
    for (std::string& line : lines) {
      RunProgress with_line = last;
      with_line.notice = std::move(line);
      show(with_line);
    }
  };
  hooks.recent_steps = true;
  hooks.progress = [&, show = hooks.progress](const RunProgress& progress) {
    show(progress);
    if (progress.steps == nullptr) return;  // a notice
    last = progress;
    tell(watch.take(progress));
  };
  auto summary = run_training(command.options, task, hooks);
  STRETTO_CHECK(summary.has_value(), "a process that started its own ranks has no summary");
  tell(watch.finish(summary->wall_seconds));
  return {std::move(*summary), watch.prediction()};
}

void run_groups(std::vector<RunGroup>& groups, int repeats, const TrainingTask& task) {
  std::set<std::string> told;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t position = 0; position < groups.size(); ++position) {
      RunGroup& group = groups[rotated(position, repeat, groups.size())];
      group.runs.push_back(run_once(group, repeat, repeats, task, told));
    }
  }
}

std::size_t rotated(std::size_t position, int repeat, std::size_t groups) {
  return (position + static_cast<std::size_t>(repeat)) % groups;
}

std::string run_folder_name(const RunGroup& group, std::uint64_t seed) {
  return fmt::format("{}-seed{}", folder_name(group.label), seed);
}

std::string folder_name(const std::string& text) {
  std::string out = text;
  for (char& c : out) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
  }
  return out;
}

}  // namespace stretto::command
