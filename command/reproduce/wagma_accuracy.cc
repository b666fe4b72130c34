#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "command/cli/table.h"
#include "command/reproduce/experiments.h"
#include "command/reproduce/small_model.h"
#include "command/statistics/statistics.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr double kAccuracy = 0.9;

/// An algorithm with learning rates that suit it.
struct Row {
  AlgorithmRow row;
  double lr_by_label;
  double lr;
  bool in_the_paper = false;  ///< the paper has it beside WAGMA-SGD
};

/// The rates are, of 0.025, 0.05, 0.1, 0.2 and 0.4, those by which rank 0's model came to the accuracy first, of two
/// seeds, among those by which the mean model ended at 89 % or more; where there is none, those by which it ended
/// nearest.
std::vector<Row> rows(int ranks) {
  const std::string post_local = std::to_string(20 * ranks);
  const std::string half = fmt::format("k-sync:{}", std::max(1, ranks / 2));
  return {
      {{"sync", "sync", 0, {}, 75.8}, 0.4, 0.4, true},
      {{"local", "local", 0, {}, 75.3}, 0.2, 0.2, true},
      {{"post-local", "local", 0, {{"post-local", post_local}}, kNone}, 0.2, 0.2},
      {{"d-psgd", "d-psgd", 0, {}, kNone}, 0.2, 0.4, true},
      {{"sgp", "sgp", 0, {}, kNone}, 0.4, 0.4},
      {{"sgp, 2 neighbours", "sgp", 0, {{"neighbours", "2"}}, kNone}, 0.2, 0.4, true},
      {{"osgp", "osgp", 0, {}, kNone}, 0.1, 0.2},
      {{"gossip-grad", "gossip-grad", 0, {}, kNone}, 0.2, 0.4},
      {{"ad-psgd", "ad-psgd", 0, {}, kNone}, 0.2, 0.2, true},
      {{"easgd", "easgd", 0, {}, kNone}, 0.2, 0.05},
      {{"easgd-async", "easgd-async", 0, {}, kNone}, 0.2, 0.05},
      {{"eager-solo", "eager-solo", 0, {}, kNone}, 0.05, 0.05, true},
      {{"eager-quorum", "eager-quorum", 0, {}, kNone}, 0.2, 0.2},
      {{"diloco", "diloco", 0, {}, kNone}, 0.2, 0.1},
      {{"diloco:quorum", "diloco:quorum", 0, {}, kNone}, 0.2, 0.05},
      {{"local:quorum", "local:quorum", 0, {}, kNone}, 0.4, 0.1},
      {{"ps-sync", "ps-sync", 0, {}, kNone}, 0.4, 0.4},
      {{"ps-async", "ps-async", 0, {}, kNone}, 0.05, 0.05},
      {{"ssp:3", "ssp:3", 0, {}, kNone}, 0.05, 0.05},
      {{"k-sync of half", half, 0, {}, kNone}, 0.4, 0.4},
      {{"wagma", "wagma", 0, {}, 75.0}, 0.4, 0.4},
      {{"wagma-quorum", "wagma-quorum", 0, {}, kNone}, 0.4, 0.4},
  };
}

/// Of a run that never came to the accuracy, its end: no more than it would have taken.
std::vector<double> seconds_of(const RunGroup& group, std::size_t& reached) {
  std::vector<double> out;
  reached = 0;
  for (const RunSummary& run : group.runs) {
    const auto seconds = seconds_to_accuracy(run, kAccuracy);
    reached += seconds ? 1 : 0;
    out.push_back(seconds.value_or(run.wall_seconds));
  }
  return out;
}

}  // namespace

std::vector<Experiment> wagma_accuracy_experiments(const ReproduceCommand& command) {
  const int late = std::max(1, command.ranks / 32);
  const Duration step = step_of(command);
  std::vector<Experiment> out;
  for (const bool by_label : {true, false}) {
    Experiment experiment{fmt::format("{} ranks, {} of them late by half a step each time; a rank sees {}",
                                      command.ranks, late, by_label ? "three labels at most" : "samples of all labels"),
                          {},
                          {},
                          judge_wagma_accuracy};
    for (const Row& row : rows(command.ranks)) {
      TrainOptions options = small_model(command, command.ranks, by_label ? row.lr_by_label : row.lr);
      if (!by_label) options.data.clear();
      options.imbalance = fmt::format("random:ranks={},delay={}+lognormal:mean={},cv=1", late, to_text(step / 2),
                                      to_text(step * 3 / 100));
      options.evaluate = "replica";
      if (!options.out.empty()) options.out += by_label ? "/labels" : "/all";
      experiment.groups.push_back(group_of(row.row, options));
      experiment.expect.push_back(std::isnan(row.row.paper) ? "paper: no number"
                                                            : fmt::format("paper: top-1 accuracy {} %", row.row.paper));
    }
    out.push_back(std::move(experiment));
  }
  return out;
}

Judgement judge_wagma_accuracy(const Experiment& finished) {
  const std::vector<Row> all = rows(finished.groups.front().options.ranks);
  STRETTO_CHECK(finished.groups.size() == all.size(), finished.groups.size(), " groups");
  const std::size_t recommended = all.size() - 1, wagma = all.size() - 2;
  std::vector<std::vector<double>> values;
  std::vector<Claim> claims;
  Table table(
      {"", "rate", "seconds to 90 %", "runs that came to it", "accuracy at the end", "batches/s", "paper: top-1"});
  for (std::size_t i = 0; i < all.size(); ++i) {
    const RunGroup& group = finished.groups[i];
    std::size_t reached = 0;
    values.push_back(seconds_of(group, reached));
    if (all[i].in_the_paper) claims.push_back({wagma, Claim::Kind::not_above, i});
    std::vector<double> accuracies, throughput;
    for (const RunSummary& run : group.runs) {
      accuracies.push_back(100 * run.accuracy.value_or(kNone));
      throughput.push_back(run.throughput);
    }
    const std::string seconds = with_spread(mean(values.back()), standard_deviation(values.back()));
    table.add({group.label, significant(group.options.lr), (reached < group.runs.size() ? "over " : "") + seconds,
               fmt::format("{} of {}", reached, group.runs.size()),
               with_spread(mean(accuracies), standard_deviation(accuracies)) + " %", significant(mean(throughput)),
               std::isnan(all[i].row.paper) ? "" : fmt::format("{:.1f} %", all[i].row.paper)});
  }
  for (std::size_t i = 0; i < recommended; ++i) claims.push_back({recommended, Claim::Kind::not_above, i});
  const Judgement judgement = judge_claims(finished, "seconds to 90 %", claims, values);
  return {table.to_text() + judgement.text, judgement.holds};
}

}  // namespace stretto::command
