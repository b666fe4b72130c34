#include "command/predict/exchange_costs.h"

#include <algorithm>
#include <utility>

#include "stretto/simulate/network_spec.h"

namespace stretto::command {

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
  ExchangeCosts operator()(const ServerOptions&) {
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
