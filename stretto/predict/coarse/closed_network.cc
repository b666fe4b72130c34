#include "stretto/predict/coarse/closed_network.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "stretto/base/error.h"

namespace stretto {
namespace {

/// What a task that arrives finds at one station of each kind; sums over all workers.
struct Load {
  double link_queue = 0;        // N
  double link_utilization = 0;  // ρ
  double server_queue = 0;
};

enum Discipline : std::size_t { kInOrder, kEqualShares, kDisciplines };
using Loads = std::array<Load, kDisciplines>;

/// One class, in the units of the whole visit of all stations of a kind.
class Visit {
 public:
  Visit(const ClosedNetwork::Class& workers, double transfer, int servers)
      : compute_(workers.compute), update_(workers.update), transfer_(transfer), share_(1.0 / servers) {}

  struct Outcome {
    double rate;      // of all workers of the class
    double transfer;  // T
    double update;    // T_S
  };

  /// `workers` of the class are there, and each finds `load` where it arrives.
  Outcome among(double workers, const Load& load, Discipline discipline) const {
    // Eqs 1 and 2: the transfer that is under way when another arrives has half of it left, on the mean.
    const double found = load.link_queue - (discipline == kInOrder ? load.link_utilization / 2 : 0);
    const double transfer = transfer_ * (1 + found);
    const double update = update_ * (1 + load.server_queue);
    return {workers / (compute_ + 2 * transfer + update), transfer, update};
  }

  /// Little's law, for one of the stations of each kind.
  Load load_of(const Outcome& outcome) const {
    const double rate = outcome.rate * share_;
    return {rate * outcome.transfer, rate * transfer_, rate * outcome.update};
  }

 private:
  double compute_;
  double update_;
  double transfer_;
  double share_;
};

std::vector<Visit> visits_of(const ClosedNetwork& network) {
  std::vector<Visit> visits;
  for (const auto& workers : network.classes) visits.emplace_back(workers, network.transfer, network.servers);
  return visits;
}

void operator+=(Load& sum, const Load& part) {
  sum.link_queue += part.link_queue;
  sum.link_utilization += part.link_utilization;
  sum.server_queue += part.server_queue;
}

void add(NetworkSolution& solution, std::size_t index, const Visit& visit, const Visit::Outcome& outcome) {
  solution.classes[index] = {outcome.rate, outcome.transfer};
  solution.rate += outcome.rate;
  solution.utilization += visit.load_of(outcome).link_utilization;
}

NetworkSolution& of(NetworkSolutions& solutions, Discipline discipline) {
  return discipline == kInOrder ? solutions.in_order : solutions.equal_shares;
}

/// The populations that lie at most `reach` behind the one that is visited.
class RecentLoads {
 public:
  explicit RecentLoads(std::size_t reach) : ring_(reach + 1) {}

  const Loads& back(std::size_t distance) const {
    return ring_[here_ >= distance ? here_ - distance : here_ + ring_.size() - distance];
  }
  /// Goes on to the next population, whose loads are to be set.
  Loads& next() {
    here_ = here_ + 1 == ring_.size() ? 0 : here_ + 1;
    ring_[here_] = {};
    return ring_[here_];
  }

 private:
  std::vector<Loads> ring_;
  std::size_t here_ = 0;
};

/// Numbers in a mixed radix whose most significant digit is that of the largest class: so few recent ones are needed.
struct Digits {
  std::vector<std::size_t> stride;  // of each class
  std::vector<std::size_t> order;   // of classes, the least significant first
  std::size_t reach = 1;            // the largest stride
};

Digits digits_of(const ClosedNetwork& network) {
  Digits digits;
  digits.stride.resize(network.classes.size());
  digits.order.resize(network.classes.size());
  std::iota(digits.order.begin(), digits.order.end(), 0);
  std::stable_sort(digits.order.begin(), digits.order.end(),
                   [&](std::size_t a, std::size_t b) { return network.classes[a].count < network.classes[b].count; });
  std::size_t stride = 1;
  for (const std::size_t c : digits.order) {
    digits.stride[c] = digits.reach = stride;
    stride *= static_cast<std::size_t>(network.classes[c].count) + 1;
  }
  return digits;
}

}  // namespace

double states_of(const ClosedNetwork& network) {
  double states = 1;
  for (const auto& workers : network.classes) states *= workers.count + 1.0;
  return states;
}

NetworkSolutions solve(const ClosedNetwork& network) {
  return states_of(network) <= kMostStates ? solve_exactly(network) : solve_approximately(network);
}

NetworkSolutions solve_exactly(const ClosedNetwork& network) {
  STRETTO_CHECK(states_of(network) < 1e15, states_of(network));
  const std::vector<Visit> visits = visits_of(network);
  const Digits digits = digits_of(network);
  std::vector<int> there(visits.size());  // the population n
  RecentLoads recent(digits.reach);       // the first of them: nobody is there

  const auto states = static_cast<std::size_t>(states_of(network));
  for (std::size_t state = 1; state + 1 < states; ++state) {
    for (const std::size_t c : digits.order) {
      if (++there[c] <= network.classes[c].count) break;
      there[c] = 0;
    }
    Loads& loads = recent.next();
    for (std::size_t c = 0; c < visits.size(); ++c) {
      if (there[c] == 0) continue;
      const Loads& without_one = recent.back(digits.stride[c]);
      for (const Discipline d : {kInOrder, kEqualShares}) {
        loads[d] += visits[c].load_of(visits[c].among(there[c], without_one[d], d));
      }
    }
  }

  NetworkSolutions solutions;
  recent.next();
  for (const Discipline d : {kInOrder, kEqualShares}) {
    of(solutions, d).classes.resize(visits.size());
    for (std::size_t c = 0; c < visits.size(); ++c) {
      const Load& without_one = recent.back(digits.stride[c])[d];
      add(of(solutions, d), c, visits[c], visits[c].among(network.classes[c].count, without_one, d));
    }
  }
  return solutions;
}

NetworkSolutions solve_approximately(const ClosedNetwork& network) {
  constexpr int kMostRounds = 100'000;
  constexpr double kSteady = 1e-13;
  const std::vector<Visit> visits = visits_of(network);
  NetworkSolutions solutions{.exact = false};
  for (const Discipline d : {kInOrder, kEqualShares}) {
    std::vector<Visit::Outcome> outcomes;
    Load all;
    for (std::size_t c = 0; c < visits.size(); ++c) {  // as if nobody else were there
      outcomes.push_back(visits[c].among(network.classes[c].count, {}, d));
      all += visits[c].load_of(outcomes[c]);
    }
    double change = 1;
    for (int round = 0; change > kSteady && round < kMostRounds; ++round) {
      change = 0;
      Load next;
      for (std::size_t c = 0; c < visits.size(); ++c) {
        // Without one of its n workers a class has 1 − 1/n of its load.
        const double count = network.classes[c].count;
        const Load own = visits[c].load_of(outcomes[c]);
        const Load found{all.link_queue - own.link_queue / count, all.link_utilization - own.link_utilization / count,
                         all.server_queue - own.server_queue / count};
        const auto outcome = visits[c].among(count, found, d);
        change = std::max(change, std::abs(outcome.rate - outcomes[c].rate) / outcome.rate);
        outcomes[c] = outcome;
        next += visits[c].load_of(outcome);
      }
      all = next;
    }
    of(solutions, d).classes.resize(visits.size());
    for (std::size_t c = 0; c < visits.size(); ++c) add(of(solutions, d), c, visits[c], outcomes[c]);
  }
  return solutions;
}

}  // namespace stretto
