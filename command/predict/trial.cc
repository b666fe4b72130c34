#include "command/predict/trial.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "command/cli/table.h"

namespace stretto::command {

Trial try_out(const Choice& choice, const std::vector<StepTimes>& replicas, const SimulatedHosts& hosts,
              std::uint64_t seed) {
  Trial trial{.choice = choice};
  std::vector<double> of_ideal, fresh, stale, waited;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const Outcome outcome = simulate(choice, replicas[i], hosts, seed + i);
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
