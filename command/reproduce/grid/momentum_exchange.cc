#include "stretto/train/recipes/momentum_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "command/cli/table.h"
#include "command/reproduce/experiments.h"
#include "command/reproduce/small_model.h"
#include "command/statistics/statistics.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr const char* kMomentumLocal = "momentum local";
constexpr const char* kMomentumAveraged = "momentum averaged";
constexpr const char* kMomentumExchanged = "momentum exchanged";

constexpr int kNodes = 64;  // with which what chance leaves between dimensions is below half a decade
constexpr std::size_t kDimensions = 64;
constexpr double kDecades = 4.4;  // of energies at the start
constexpr int kSweeps = 1000;     // in each of which every node collides once

using Velocities = std::vector<std::vector<double>>;  // of nodes

double squares(std::span<const double> numbers) {
  return std::inner_product(numbers.begin(), numbers.end(), numbers.begin(), 0.0);
}

std::vector<double> sum_of(const Velocities& nodes) {
  std::vector<double> sum(kDimensions);
  for (const auto& node : nodes) {
    for (std::size_t k = 0; k < kDimensions; ++k) sum[k] += node[k];
  }
  return sum;
}

double energy_of(const Velocities& nodes) {
  double energy = 0;
  for (const auto& node : nodes) energy += squares(node);
  return energy;
}

/// Decades from the smallest energy of a dimension to the largest.
double spread_of(const Velocities& nodes) {
  std::vector<double> energies(kDimensions);
  for (const auto& node : nodes) {
    for (std::size_t k = 0; k < kDimensions; ++k) energies[k] += node[k] * node[k];
  }
  return std::log10(std::ranges::max(energies) / std::ranges::min(energies));
}

}  // namespace

Exchanged exchange_momenta(int nodes, std::uint64_t seed) {
  Random random(seed);
  Velocities all(static_cast<std::size_t>(nodes));
  for (auto& node : all) {
    for (std::size_t k = 0; k < kDimensions; ++k) {
      const double share = static_cast<double>(k) / static_cast<double>(kDimensions - 1);
      node.push_back(random.normal() * std::pow(10, -0.5 * kDecades * share));
    }
  }
  const std::vector<double> sum = sum_of(all);
  const double energy = energy_of(all);
  Exchanged out{.decades_before = spread_of(all)};
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    shuffle(order, Random(seed, random.bits()));
    for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
      collide(all[order[i]], all[order[i + 1]], random_direction(Random(seed, random.bits()), kDimensions));
    }
  }
  std::vector<double> change = sum_of(all);
  for (std::size_t k = 0; k < kDimensions; ++k) change[k] -= sum[k];
  out.decades_after = spread_of(all);
  out.sum_off = std::sqrt(squares(change) / squares(sum));
  out.energy_off = std::abs(energy_of(all) / energy - 1);
  return out;
}

std::vector<Experiment> momentum_exchange_experiments(const ReproduceCommand& command) {
  std::vector<Experiment> out;
  for (Experiment& of_grid : grid_semantics_experiments(command)) {
    if (of_grid.judge == show_grid_semantics) continue;  // where nothing is learned
    Experiment experiment{of_grid.title, {}, {}, show_momentum_exchange};
    for (const char* label : {kMomentumLocal, kMomentumAveraged, kMomentumExchanged}) {
      RunGroup group = labelled(of_grid, "grid, carry, alpha 0.5");
      group.label = label;
      if (label == kMomentumAveraged) group.options.algorithm_options.set("average-momentum", "yes");
      if (label == kMomentumExchanged) group.options.algorithm_options.set("momentum-exchange", "yes");
      experiment.groups.push_back(std::move(group));
      experiment.expect.emplace_back("not in the paper");
    }
    out.push_back(std::move(experiment));
  }
  return out;
}

Judgement show_momentum_exchange(const Experiment& finished) {
  std::vector<std::vector<double>> losses;
  Table table({"", "training loss of the mean model", "test accuracy"});
  for (const RunGroup& group : finished.groups) {
    std::vector<double> accuracies;
    losses.emplace_back();
    for (const RunSummary& run : group.runs) {
      losses.back().push_back(run.train_loss.value_or(kNone));
      accuracies.push_back(100 * run.accuracy.value_or(kNone));
    }
    table.add({group.label, with_spread(mean(losses.back()), standard_deviation(losses.back())),
               with_spread(mean(accuracies), standard_deviation(accuracies)) + " %"});
  }
  const Claim open[] = {{2, Claim::Kind::not_above, 0}, {2, Claim::Kind::not_above, 1}};
  return {table.to_text() + judge_claims(finished, "not required", open, losses).text};
}

Judgement judge_momentum_exchange(std::span<const Experiment> finished) {
  STRETTO_CHECK(!finished.empty(), "no experiment");
  const RunGroup& first = finished.front().groups.front();
  Exchanged worst, one;
  const std::size_t seeds = std::max<std::size_t>(1, first.runs.size());
  for (std::size_t i = 0; i < seeds; ++i) {
    one = exchange_momenta(kNodes, first.options.seed + i);
    worst.decades_before = i == 0 ? one.decades_before : std::min(worst.decades_before, one.decades_before);
    worst.decades_after = std::max(worst.decades_after, one.decades_after);
    worst.sum_off = std::max(worst.sum_off, one.sum_off);
    worst.energy_off = std::max(worst.energy_off, one.energy_off);
  }
  Judgement judgement;
  judgement.statements = {
      {"the sum of all momenta stays, to 1e-12 of its length", "–", fmt::format("{:.1e}", worst.sum_off),
       worst.sum_off <= 1e-12},
      {"the sum of their squares stays, to 1e-12", "–", fmt::format("{:.1e}", worst.energy_off),
       worst.energy_off <= 1e-12},
      {"energies of dimensions are 4 decades apart before, or more", "–", fmt::format("{:.2f}", worst.decades_before),
       worst.decades_before >= 4},
      {"and half a decade after, or less", "–", fmt::format("{:.2f}", worst.decades_after), worst.decades_after <= 0.5},
  };
  for (const Statement& statement : judgement.statements) judgement.holds &= statement.holds;
  judgement.text =
      fmt::format("\nCollisions alone: {} nodes, {} dimensions, {} for each node, the worst of {} seed{}\n{}", kNodes,
                  kDimensions, kSweeps, seeds, seeds == 1 ? "" : "s", statements_table(judgement.statements));
  return judgement;
}

}  // namespace stretto::command
