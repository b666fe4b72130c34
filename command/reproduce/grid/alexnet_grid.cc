#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "command/cli/table.h"
#include "command/reproduce/experiments.h"
#include "command/statistics/statistics.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

enum AlexNetRows : std::size_t { kSingle, kSmallPaper, kSmallCarry, kLargePaper, kLargeCarry, kAlexNetRows };

constexpr int kImagesAStep = 8;
constexpr double kLearningRate = 0.02;
constexpr double kPointsBelow = 3;                // of the accuracy of a single node, at most
constexpr std::size_t kEvaluations = 20;          // of a run, of which the last quarter counts
constexpr std::uint64_t kTrainingImages = 1'438;  // of the training data

struct Accuracies {
  double average = 0;  ///< of the mean model at the end, in %
  double node = 0;     ///< of rank 0's own model before that
  double apart = 0;    ///< of the two, without sign
};

Accuracies accuracies_of(const RunGroup& group) {
  std::vector<double> average, node, apart;
  for (const RunSummary& run : group.runs) {
    STRETTO_CHECK(run.accuracy.has_value(), "a run of ", run.algorithm, " without an accuracy");
    average.push_back(100 * *run.accuracy);
    const std::size_t all = run.evaluations.size();
    for (std::size_t i = all - std::min(all, kEvaluations / 4); i < all; ++i) {
      node.push_back(100 * run.evaluations[i].accuracy.value_or(0));
      apart.push_back(std::abs(node.back() - average.back()));
    }
  }
  return {mean(average), mean(node), mean(apart)};
}

}  // namespace

std::vector<Experiment> alexnet_grid_experiments(const ReproduceCommand& command) {
  TrainOptions options = base_options(command, "digits-conv");
  options.batch = kImagesAStep;
  options.lr = kLearningRate;
  options.momentum = 0.9;
  options.simulated = true;
  // Two messages and two words a round: three steps, as in the paper.
  const double step = seconds(command.pace) * kImagesAStep * command.scale;
  options.network = fmt::format("latency={},bandwidth=10GB/s,jitter={}", to_text(from_seconds(0.75 * step)),
                                to_text(from_seconds(0.25 * step)));
  options.evaluate = "replica";
  options.evaluate_every = std::max<std::uint64_t>(1, kTrainingImages / kImagesAStep * command.epochs / kEvaluations);
  const int small = std::max(4, command.ranks / 4);
  Experiment out{
      fmt::format("One node, {} and {}, as many batches in all", small, command.ranks), {}, {}, judge_alexnet_grid};
  const auto add = [&](const std::string& label, const std::string& algorithm, int ranks,
                       const AlgorithmOptions& given) {
    TrainOptions own = options;
    own.ranks = ranks;
    out.groups.push_back(group_of({label, algorithm, 0, given, kNone}, std::move(own)));
  };
  add("one node", "sync", 1, {});
  for (const int nodes : {small, command.ranks}) {
    add(fmt::format("{} nodes, paper", nodes), "easgd-grid", nodes, {{"elastic-rule", "paper"}, {"alpha", "0.3"}});
    add(fmt::format("{} nodes, carry", nodes), "easgd-grid", nodes, {});
  }
  out.expect.assign(out.groups.size(), "see the statements");
  return {out};
}

Judgement judge_alexnet_grid(const Experiment& finished) {
  STRETTO_CHECK(finished.groups.size() == kAlexNetRows, finished.groups.size(), " groups");
  Table table({"", "average of all, %", "a node by itself, %", "apart, points", "own steps a round"});
  std::vector<Accuracies> all;
  for (const RunGroup& group : finished.groups) {
    all.push_back(accuracies_of(group));
    std::vector<double> steps;
    for (const RunSummary& run : group.runs) {
      for (const auto& dimension : run.lines) {
        for (const GridCounts& counts : dimension) steps.push_back(counts.steps_per_round());
      }
    }
    table.add({group.label, fmt::format("{:.1f}", all.back().average), fmt::format("{:.1f}", all.back().node),
               fmt::format("{:.2f}", all.back().apart), steps.empty() ? "–" : significant(mean(steps))});
  }
  Judgement out;
  for (std::size_t i = kSmallPaper; i < kAlexNetRows; ++i) {
    const double below = all[kSingle].average - all[i].average;
    out.statements.push_back(
        {fmt::format("{}: within {:.0f} points of one node", finished.groups[i].label, kPointsBelow),
         "approaches 57.67 %", fmt::format("{:+.2f}", -below), below <= kPointsBelow});
  }
  for (const auto& [large, small] : {std::pair(kLargePaper, kSmallPaper), std::pair(kLargeCarry, kSmallCarry)}) {
    out.statements.push_back(
        {fmt::format("{}: nodes further apart than of {}", finished.groups[large].label, finished.groups[small].label),
         "as drawn", fmt::format("{:.2f} and {:.2f}", all[large].apart, all[small].apart),
         all[large].apart > all[small].apart});
  }
  out.holds = std::ranges::all_of(out.statements, &Statement::holds);
  out.text = table.to_text() + "\n" + statements_table(out.statements);
  return out;
}

}  // namespace stretto::command
