#include <fmt/format.h>

#include <cmath>

#include "command/cli/table.h"
#include "command/reproduce/experiments.h"
#include "command/reproduce/small_model.h"
#include "command/statistics/statistics.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr double kLr = 0.4;
constexpr std::uint64_t kTau = 10;
constexpr int kSmallGroup = 2;

enum Ablations : std::size_t { kDynamic, kAll, kSmall, kFixed, kNoGroups };

/// As the enumeration above. The paper's numbers are ResNet-50's top-1 accuracy, of 64 ranks: 8 in a group, or 4.
std::vector<AlgorithmRow> rows(const std::string& algorithm, int ranks) {
  return {
      {"groups by turns", algorithm, 0, {}, 75.0},
      {"one group of all ranks", fmt::format("{}:{}", algorithm, ranks), 0, {}, kNone},
      {"groups of two", fmt::format("{}:{}", algorithm, kSmallGroup), 0, {}, 72.8},
      {"groups always the same", algorithm, 0, {{"group-order", "fixed"}}, 73.5},
      {"no groups", "local", kTau, {}, 66.9},
  };
}

constexpr Claim kOfLoss[] = {
    {kDynamic, Claim::Kind::not_above, kAll}, {kDynamic, Claim::Kind::below, kFixed},
    {kDynamic, Claim::Kind::below, kSmall},   {kFixed, Claim::Kind::below, kNoGroups},
    {kSmall, Claim::Kind::below, kNoGroups},
};
constexpr Claim kOfTime[] = {{kDynamic, Claim::Kind::below, kAll}};

}  // namespace

std::vector<Experiment> wagma_ablation_experiments(const ReproduceCommand& command) {
  std::vector<Experiment> out;
  for (const char* algorithm : {"wagma", "wagma-quorum"}) {
    TrainOptions options = with_lognormal_steps(small_model(command, command.ranks, kLr), command);
    if (!options.out.empty()) options.out += fmt::format("/{}", algorithm);
    Experiment experiment{fmt::format("{} on {} ranks, without one of its parts", algorithm, command.ranks),
                          {},
                          {},
                          judge_wagma_ablation};
    for (const AlgorithmRow& row : rows(algorithm, command.ranks)) {
      experiment.groups.push_back(group_of(row, options));
      experiment.expect.push_back(std::isnan(row.paper) ? "paper: no more accurate, 1.07 times slower"
                                                        : fmt::format("paper: top-1 accuracy {} %", row.paper));
    }
    out.push_back(std::move(experiment));
  }
  return out;
}

Judgement judge_wagma_ablation(const Experiment& finished) {
  std::vector<std::vector<double>> losses, times;
  Table table({"", "training loss", "test accuracy", "seconds", "paper: top-1"});
  const auto paper = rows("wagma", finished.groups.front().options.ranks);
  STRETTO_CHECK(finished.groups.size() == paper.size(), finished.groups.size(), " groups");
  for (std::size_t i = 0; i < finished.groups.size(); ++i) {
    std::vector<double> accuracies;
    losses.emplace_back();
    times.emplace_back();
    for (const RunSummary& run : finished.groups[i].runs) {
      losses.back().push_back(run.train_loss.value_or(kNone));
      times.back().push_back(run.wall_seconds);
      accuracies.push_back(100 * run.accuracy.value_or(kNone));
    }
    table.add({finished.groups[i].label, with_spread(mean(losses.back()), standard_deviation(losses.back())),
               with_spread(mean(accuracies), standard_deviation(accuracies)) + " %", significant(mean(times.back()), 4),
               std::isnan(paper[i].paper) ? "no more, 1.07× slower" : fmt::format("{} %", paper[i].paper)});
  }
  const Judgement of_loss = judge_claims(finished, "training loss", kOfLoss, losses);
  const Judgement of_time = judge_claims(finished, "time of as many batches", kOfTime, times);
  return {table.to_text() + of_loss.text + of_time.text, of_loss.holds && of_time.holds};
}

}  // namespace stretto::command
