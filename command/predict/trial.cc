#include "command/predict/trial.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "command/cli/own_ranks.h"
#include "command/cli/progress.h"
#include "command/cli/table.h"
#include "command/machine/cores.h"
#include "stretto/base/error.h"
#include "stretto/observe/temporary_folder.h"

namespace stretto::command {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Outcome, rate, ideal, fresh_share, staleness_mean, staleness_max, wait_share, steps)

namespace {

/// A simulation's ranks are threads of which one runs at a time: on one core they hand over to each other in half the
/// time that it takes between two.
void stay_on_a_core(int process) {
  const std::vector<int> cores = usable_cores();
  try {
    pin_to(cores[static_cast<std::size_t>(process) % cores.size()]);
  } catch (const Failure&) {  // it only takes longer
  }
}

/// What one process does: it takes simulations off the list until none is left, and reports what came of them. CBOR
/// keeps each bit of a number, and NaN.
int take_simulations(RankContext& context, std::size_t count, const std::function<Outcome(std::size_t)>& simulation) {
  stay_on_a_core(context.rank());
  std::optional<Progress> progress;
  if (context.rank() == 0) progress.emplace("virtual time", "simulations", count);
  nlohmann::json done = nlohmann::json::array();
  const auto next = [&] { return context.counter(0).fetch_add(1); };
  for (std::size_t i = next(); i < count; i = next()) {
    if (progress) progress->update(i);
    try {
      done.push_back({{"simulation", i}, {"outcome", simulation(i)}});
    } catch (const UsageError& error) {
      done.push_back({{"simulation", i}, {"misuse", error.what()}});
      context.counter(0).fetch_add(count);
    }
  }
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(done);
  context.report({bytes.begin(), bytes.end()});
  return 0;
}

std::vector<Outcome> outcomes_of(const std::vector<std::string>& reports, std::size_t count) {
  std::vector<Outcome> outcomes(count);
  for (const std::string& report : reports) {
    for (const auto& entry : nlohmann::json::from_cbor(report)) {
      if (entry.contains("misuse")) throw UsageError(entry["misuse"].get<std::string>());
      outcomes.at(entry.at("simulation").get<std::size_t>()) = entry.at("outcome").get<Outcome>();
    }
  }
  return outcomes;
}

Trial summarize(const Choice& choice, std::span<const Outcome> outcomes) {
  Trial trial{.choice = choice};
  std::vector<double> of_ideal, fresh, stale, waited;
  for (const Outcome& outcome : outcomes) {
    trial.rates.push_back(outcome.rate);
    trial.steps.insert(trial.steps.end(), outcome.steps.begin(), outcome.steps.end());
    of_ideal.push_back(outcome.rate / outcome.ideal);
    fresh.push_back(outcome.fresh_share);
    stale.push_back(outcome.staleness_mean);
    waited.push_back(outcome.wait_share);
    trial.staleness_max = std::max(trial.staleness_max, outcome.staleness_max);
  }
  trial.of_ideal = mean(of_ideal);
  trial.fresh_share = mean(fresh);
  trial.staleness_mean = mean(stale);
  trial.wait_share = mean(waited);
  return trial;
}

}  // namespace

std::vector<Trial> try_out(const std::vector<Choice>& choices, const std::vector<StepTimes>& replicas,
                           const SimulatedHosts& hosts, std::uint64_t seed, int processes) {
  const std::size_t each = replicas.size(), count = choices.size() * each;
  const TemporaryFolder folder;  // of this process, which removes it also where the others are stopped by a signal
  const auto simulation = [&](std::size_t i) {
    return simulate(choices[i / each], replicas[i % each], hosts, seed + i % each, 0, folder.path());
  };
  const JobOptions job{.ranks = std::min(processes, static_cast<int>(count))};
  const auto reports = reports_of_ranks(job, [&](RankContext& context) {
                         return take_simulations(context, count, simulation);
                       }).or_throw();
  const std::vector<Outcome> outcomes = outcomes_of(reports, count);
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    trials.push_back(summarize(choices[i], std::span(outcomes).subspan(i * each, each)));
  }
  return trials;
}

std::string rate_of(const Trial& trial) {
  const Interval rate = mean_interval(trial.rates);
  return with_spread(rate.estimate, rate.high - rate.estimate);
}

nlohmann::ordered_json to_json(const Trial& trial) {
  const Interval rate = mean_interval(trial.rates);
  return {{"algorithm", trial.choice.name()},
          {"batches_per_s", rate.estimate},
          {"batches_per_s_interval", {rate.low, rate.high}},
          {"of_ideal", trial.of_ideal},
          {"fresh_share", trial.fresh_share},
          {"staleness_mean", trial.staleness_mean},
          {"staleness_max", trial.staleness_max},
          {"wait_share", trial.wait_share}};
}

}  // namespace stretto::command
