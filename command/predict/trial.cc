#include "command/predict/trial.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "command/cli/table.h"
#include "command/predict/exchange_costs.h"
#include "command/predict/in_processes.h"
#include "stretto/observe/temporary_folder.h"

namespace stretto::command {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Outcome, rate, ideal, fresh_share, staleness_mean, staleness_max, wait_share, steps,
                                   round_batches, unseen)

namespace {

Trial summarize(const Choice& choice, std::span<const Outcome> outcomes) {
  Trial trial{.choice = choice};
  std::vector<double> of_ideal, fresh, stale, waited, unseen;
  for (const Outcome& outcome : outcomes) {
    trial.rates.push_back(outcome.rate);
    trial.steps.insert(trial.steps.end(), outcome.steps.begin(), outcome.steps.end());
    of_ideal.push_back(outcome.rate / outcome.ideal);
    fresh.push_back(outcome.fresh_share);
    stale.push_back(outcome.staleness_mean);
    waited.push_back(outcome.wait_share);
    unseen.push_back(outcome.unseen);
    trial.staleness_max = std::max(trial.staleness_max, outcome.staleness_max);
  }
  trial.of_ideal = mean(of_ideal);
  trial.fresh_share = mean(fresh);
  trial.staleness_mean = mean(stale);
  trial.wait_share = mean(waited);
  trial.unseen = mean(unseen);
  return trial;
}

Outcome outcome_of(const ShapeOutcome& shape) {
  return {.rate = shape.rate,
          .fresh_share = shape.fresh_share,
          .staleness_mean = shape.staleness_mean,
          .staleness_max = shape.staleness_max,
          .wait_share = shape.wait_share,
          .steps = {},
          .round_batches = shape.rate * shape.seconds / static_cast<double>(std::max<std::uint64_t>(1, shape.rounds))};
}

}  // namespace

std::vector<Trial> try_out(const std::vector<Choice>& choices, const std::vector<StepTimes>& replicas,
                           const SimulatedHosts& hosts, std::uint64_t seed, int processes) {
  const std::size_t each = replicas.size(), count = choices.size() * each;
  const TemporaryFolder folder;  // of this process, which removes it also where the others are stopped by a signal
  const auto simulation = [&](std::size_t i) -> nlohmann::json {
    const Choice& choice = choices[i / each];
    const StepTimes& times = replicas[i % each];
    const std::uint64_t steps = whole_periods(choice, times.ranks(), times.steps());
    return simulate(choice, times, hosts, seed + i % each, steps, folder.path());
  };
  std::vector<Outcome> outcomes;
  for (const auto& outcome : in_processes(processes, count, simulation, "virtual time", "simulations")) {
    outcomes.push_back(outcome.get<Outcome>());
  }
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    trials.push_back(summarize(choices[i], std::span(outcomes).subspan(i * each, each)));
  }
  return trials;
}

std::vector<std::optional<Trial>> try_shapes(const std::vector<Choice>& choices, const std::vector<StepTimes>& replicas,
                                             const SimulatedHosts& hosts, std::uint64_t seed) {
  std::vector<double> ideals;
  for (const StepTimes& times : replicas) ideals.push_back(times.ideal_rate());
  const auto work = [&](std::size_t i) -> nlohmann::json {
    const int ranks = replicas.front().ranks();
    const auto shaped = shape_of(choices[i], ranks);
    if (!shaped) return nullptr;
    ShapeJob job{.shared_data = shaped->shared_data, .costs = exchange_costs(choices[i], *shaped, ranks, hosts)};
    nlohmann::json outcomes = nlohmann::json::array();
    for (std::size_t replica = 0; replica < replicas.size(); ++replica) {
      job.seed = seed + replica;
      job.steps = whole_periods(choices[i], ranks, replicas[replica].steps());
      Outcome outcome = outcome_of(simulate_shape(shaped->shape, replicas[replica], job));
      const StepTimes& times = replicas[replica];
      outcome.ideal = job.steps == times.steps() ? ideals[replica] : times.ideal_rate(job.steps);
      outcome.unseen = unseen_batches(shaped->shape, ranks, outcome.staleness_mean, outcome.round_batches);
      outcomes.push_back(std::move(outcome));
    }
    return outcomes;
  };
  const auto results = in_processes(num_cores(), choices.size(), work, "by shape", "settings");
  std::vector<std::optional<Trial>> trials(choices.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].is_null()) trials[i] = summarize(choices[i], results[i].get<std::vector<Outcome>>());
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
          {"unseen_batches", trial.unseen},
          {"wait_share", trial.wait_share}};
}

}  // namespace stretto::command
