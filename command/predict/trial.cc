#include "command/predict/trial.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "command/cli/own_ranks.h"
#include "command/cli/table.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/simulate/cluster.h"

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

namespace {

constexpr double kCompute = 100;  // seconds: far more than any exchange takes

/// Each rank computes `compute` seconds, and by `apart` longer than the one before it.
StepTimes equal_times(int ranks, std::size_t steps, double compute, double apart) {
  std::vector<float> times;
  for (std::size_t step = 0; step < steps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) times.push_back(static_cast<float>(compute + rank * apart));
  }
  return {ranks, std::move(times)};
}

/// What all exchanges of so many steps take, of ranks that come at the same moment.
double exchanges(const Choice& choice, int ranks, std::size_t steps, double compute, const SimulatedHosts& hosts) {
  const Outcome outcome = simulate(choice, equal_times(ranks, steps, compute, 0), hosts, 1);
  const double batches = static_cast<double>(steps) * ranks;
  return std::max(0.0, batches / outcome.rate - static_cast<double>(steps) * compute);
}

Choice with(Choice choice, const char* option, const char* value) {
  std::erase_if(choice.options, [&](const auto& said) { return said.first == option; });
  choice.options.emplace_back(option, value);
  return choice;
}

struct CostsOf {
  Choice choice;
  int ranks;
  const SimulatedHosts& hosts;

  ExchangeCosts operator()(const RoundShape&) {
    constexpr std::size_t kRounds = 4;
    if (choice.sync_every != 0 || choice.algorithm.starts_with("local")) choice.sync_every = 1;
    const double round = exchanges(choice, ranks, kRounds, kCompute, hosts) / kRounds;
    return {.round = round, .full_round = round};
  }

  ExchangeCosts operator()(const GroupRoundShape&) const {
    const double full = exchanges(with(choice, "tau", "1"), ranks, 3, kCompute, hosts) / 3;
    const double mixed = exchanges(with(choice, "tau", "4"), ranks, 4, kCompute, hosts);
    return {.round = std::max(0.0, mixed - full) / 3, .full_round = full};
  }

  /// Asynchronous pushes: how many of them the servers take in a second if nobody computes, and how long one takes
  /// that meets no other.
  ExchangeCosts operator()(const PushShape&) {
    constexpr std::size_t kSteps = 6, kApart = 3;
    choice.algorithm = "ps-async";
    choice.data = "partitioned";
    const double push = exchanges(choice, ranks, kSteps, 0, hosts) / (static_cast<double>(kSteps) * ranks);
    const Outcome apart = simulate(choice, equal_times(ranks, kApart, kCompute, kCompute / ranks / 4), hosts, 1);
    const double wall = static_cast<double>(kApart) * ranks / apart.rate;
    const double one = apart.wait_share * wall / kApart;
    return {.push = std::min(push, one), .answer = std::max(0.0, one - push)};
  }
};

}  // namespace

ExchangeCosts exchange_costs(const Choice& choice, const ShapedChoice& shaped, int ranks, const SimulatedHosts& hosts) {
  return std::visit(CostsOf{choice, ranks, hosts}, shaped.shape.exchange);
}

std::string network_of_exchange(double seconds, int ranks, std::uint64_t model_bytes) {
  constexpr double kMost = 1e12;
  NetworkOptions links = parse_network({});
  const auto takes = [&](double bandwidth) {
    links.bytes_per_second = bandwidth;
    return exchanges({"sync"}, ranks, 1, kCompute, {.network = to_text(links), .model_bytes = model_bytes});
  };
  const double least = takes(1e3 * kMost);  // latencies
  double bandwidth = kMost;
  if (seconds > least) {
    const double guess = static_cast<double>(model_bytes) / seconds;
    bandwidth =
        std::min(kMost, guess * (takes(guess) - least) / (seconds - least));  // the rest is in proportion to 1/B
  }
  links.bytes_per_second = bandwidth;
  return to_text(links);
}

}  // namespace stretto::command
