#include "stretto/predict/coarse/closed_network.h"

#include <gtest/gtest.h>

#include <cmath>

#include "stretto/base/random.h"
#include "stretto/predict/coarse/testing/expect_near.h"

namespace stretto {
namespace {

constexpr double kRounding = 1e-12;

// The recursion as the paper writes it, over all sets of workers, each of which is one bit.
class OverSets {
 public:
  OverSets(std::vector<ClosedNetwork::Class> workers, double transfer, bool in_order)
      : workers_(std::move(workers)), transfer_(transfer), in_order_(in_order), at_(1U << workers_.size()) {
    for (unsigned set = 1; set < at_.size(); ++set) visit(set);
  }

  double rate() const {
    double sum = 0;
    for (const double x : at_.back().rate) sum += x;
    return sum;
  }
  double utilization() const { return rate() * transfer_; }

 private:
  struct At {
    std::vector<double> rate, link, server;  // X, N at a link, N at the server; of each worker
  };

  void visit(unsigned set) {
    const std::size_t count = workers_.size();
    At& here = at_[set];
    here = {std::vector<double>(count), std::vector<double>(count), std::vector<double>(count)};
    for (std::size_t k = 0; k < count; ++k) {
      if ((set >> k & 1) == 0) continue;
      const At& without = at_[set & ~(1U << k)];
      double link = transfer_, server = workers_[k].update;
      for (std::size_t j = 0; j < count && !without.rate.empty(); ++j) {
        link += transfer_ * (without.link[j] - (in_order_ ? without.rate[j] * transfer_ / 2 : 0));
        server += workers_[k].update * without.server[j];
      }
      here.rate[k] = 1 / (workers_[k].compute + 2 * link + server);
      here.link[k] = here.rate[k] * link;
      here.server[k] = here.rate[k] * server;
    }
  }

  std::vector<ClosedNetwork::Class> workers_;
  double transfer_;
  bool in_order_;
  std::vector<At> at_;
};

// Seconds over four orders of magnitude, and sometimes none.
double draw_time(Random& random) {
  return random.chance(0.15) ? 0 : std::pow(10, -3 + 4 * random.uniform());
}

ClosedNetwork draw_network(Random& random, int most_classes, int most_workers) {
  ClosedNetwork network{.transfer = std::pow(10, -2 + 2 * random.uniform()),
                        .servers = static_cast<int>(random.between(1, 3))};
  const auto classes = random.between(1, most_classes);
  for (int c = 0; c < classes; ++c) {
    network.classes.push_back(
        {static_cast<int>(random.between(1, most_workers)), draw_time(random), draw_time(random)});
  }
  return network;
}

TEST(ClosedNetwork, FollowsTheRecursionOfEqualWorkers) {
  // W = m = s = 1. One worker: X = 1/4, so that a second finds N = 1/4 and ρ = 1/4 everywhere.
  ClosedNetwork network{.classes = {{1, 1, 1}}, .transfer = 1};
  expect_near(solve(network).equal_shares.rate, 1.0 / 4, kRounding);
  expect_near(solve(network).in_order.rate, 1.0 / 4, kRounding);
  network.classes[0].count = 2;
  expect_near(solve(network).equal_shares.rate, 2 / (1 + 2 * 1.25 + 1.25), kRounding);
  expect_near(solve(network).in_order.rate, 2 / (1 + 2 * 1.125 + 1.25), kRounding);
  expect_near(solve(network).in_order.classes[0].transfer, 1.125, kRounding);
  network.classes[0].count = 3;
  expect_near(solve(network).equal_shares.rate, 57.0 / 106, kRounding);
  expect_near(solve(network).in_order.rate, 27.0 / 46, kRounding);
  expect_near(solve(network).in_order.utilization, 27.0 / 46, kRounding);
}

TEST(ClosedNetwork, FollowsTheRecursionOfUnequalWorkers) {
  // m = 1, no update; W = 1 alone has X = 1/3, W = 3 alone X = 1/5.
  const ClosedNetwork network{.classes = {{1, 1, 0}, {1, 3, 0}}, .transfer = 1};
  const NetworkSolutions solutions = solve(network);
  EXPECT_TRUE(solutions.exact);
  expect_near(solutions.equal_shares.classes[0].rate, 5.0 / 17, kRounding);
  expect_near(solutions.equal_shares.classes[1].rate, 3.0 / 17, kRounding);
  expect_near(solutions.in_order.classes[0].rate, 5.0 / 16, kRounding);
  expect_near(solutions.in_order.classes[1].rate, 3.0 / 16, kRounding);
  expect_near(solutions.in_order.utilization, 1.0 / 2, kRounding);
}

TEST(ClosedNetwork, SpreadsTheModelOverServers) {
  // m = 2 over two servers, W = 1, no update. One worker alone: X = 1/5, and N = 1/5 at each of two stations.
  ClosedNetwork network{.classes = {{1, 1, 0}}, .transfer = 2, .servers = 2};
  expect_near(solve(network).equal_shares.rate, 1.0 / 5, kRounding);
  network.classes[0].count = 2;
  expect_near(solve(network).equal_shares.rate, 2 / (1 + 2 * 2 * (1 + 1.0 / 5)), kRounding);
  expect_near(solve(network).in_order.rate, 2 / (1 + 2 * 2 * (1 + 1.0 / 5 - 1.0 / 10)), kRounding);
  expect_near(solve(network).equal_shares.utilization, solve(network).equal_shares.rate, kRounding);
}

TEST(ClosedNetwork, CountsOfClassesSayWhatSetsOfWorkersSay) {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    ClosedNetwork network = draw_network(random, 3, 3);
    network.servers = 1;
    std::vector<ClosedNetwork::Class> workers;
    for (const auto& alike : network.classes) {
      workers.insert(workers.end(), static_cast<std::size_t>(alike.count), {1, alike.compute, alike.update});
    }
    const NetworkSolutions solutions = solve_exactly(network);
    const OverSets in_order(workers, network.transfer, true), equal_shares(workers, network.transfer, false);
    expect_near(solutions.in_order.rate, in_order.rate(), kRounding);
    expect_near(solutions.in_order.utilization, in_order.utilization(), kRounding);
    expect_near(solutions.equal_shares.rate, equal_shares.rate(), kRounding);
  }
}

TEST(ClosedNetwork, NeverPassesItsBounds) {
  Random random(2);
  for (int i = 0; i < 2000; ++i) {
    const ClosedNetwork network = draw_network(random, 3, 8);
    double alone = 0;  // as if no worker ever waited
    for (const auto& workers : network.classes) {
      alone += workers.count / (workers.compute + 2 * network.transfer + workers.update);
    }
    const double bound = std::min(alone, network.servers / network.transfer) * (1 + kRounding);
    const NetworkSolutions solutions = solve_exactly(network);
    EXPECT_LE(solutions.in_order.rate, bound);
    EXPECT_LE(solutions.equal_shares.rate, solutions.in_order.rate * (1 + kRounding)) << "sharing gains nothing";
    if (network.classes.size() == 1) {
      EXPECT_LE(solutions.in_order.rate * network.classes[0].update, network.servers * (1 + kRounding));
    }
  }
}

TEST(ClosedNetwork, GrowsWithEqualWorkers) {
  Random random(3);
  for (int i = 0; i < 500; ++i) {
    ClosedNetwork network = draw_network(random, 1, 1);
    NetworkSolutions before;
    for (int count = 1; count <= 16; ++count) {
      network.classes[0].count = count;
      const NetworkSolutions solutions = solve_exactly(network);
      EXPECT_GE(solutions.in_order.rate, before.in_order.rate * (1 - kRounding));
      EXPECT_GE(solutions.equal_shares.rate, before.equal_shares.rate * (1 - kRounding));
      before = solutions;
    }
  }
}

TEST(ClosedNetwork, ScalesWithAllTimes) {
  Random random(4);
  for (int i = 0; i < 200; ++i) {
    const ClosedNetwork network = draw_network(random, 3, 5);
    ClosedNetwork slower = network;
    const double factor = 0.1 + 10 * random.uniform();
    slower.transfer *= factor;
    for (auto& workers : slower.classes) {
      workers.compute *= factor;
      workers.update *= factor;
    }
    const NetworkSolutions a = solve_exactly(network), b = solve_exactly(slower);
    expect_near(b.in_order.rate * factor, a.in_order.rate, kRounding);
    expect_near(b.equal_shares.rate * factor, a.equal_shares.rate, kRounding);
    expect_near(b.in_order.utilization, a.in_order.utilization, kRounding);
  }
}

TEST(ClosedNetwork, ApproximatesWhatItDoesNotCount) {
  Random random(5);
  for (int i = 0; i < 1000; ++i) {
    const ClosedNetwork network = draw_network(random, 3, 8);
    const NetworkSolutions exact = solve_exactly(network), approximate = solve_approximately(network);
    EXPECT_FALSE(approximate.exact);
    expect_near(approximate.in_order.rate, exact.in_order.rate, 0.12);
    expect_near(approximate.equal_shares.rate, exact.equal_shares.rate, 0.12);
    ASSERT_EQ(approximate.in_order.classes.size(), network.classes.size());
  }
  // The error falls with the number of workers, and one worker finds nobody either way.
  ClosedNetwork network{.classes = {{1, 0.09, 0.002}}, .transfer = 0.08};
  expect_near(solve_approximately(network).in_order.rate, solve_exactly(network).in_order.rate, kRounding);
  network.classes[0].count = 1000;
  expect_near(solve_approximately(network).in_order.rate, solve_exactly(network).in_order.rate, 1e-5);
}

TEST(ClosedNetwork, ApproximatesWhereThereAreTooManyStates) {
  ClosedNetwork network{.classes = {{1999, 1, 0.01}, {1999, 2, 0.01}}, .transfer = 0.001};
  EXPECT_EQ(states_of(network), 4e6);
  network.classes[0].count = 2000;
  EXPECT_FALSE(solve(network).exact);
  network.classes = {{100, 1, 0.01}, {100, 2, 0.01}};
  EXPECT_TRUE(solve(network).exact);
}

}  // namespace
}  // namespace stretto
