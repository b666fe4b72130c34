#include "command/reproduce/late_workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "command/cli/table.h"
#include "command/statistics/statistics.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr std::uint64_t kModelBytes = 4 * 25'559'081;  // ResNet-50 in float32
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// An algorithm as the papers ran it.
struct Row {
  const char* label;
  const char* algorithm;
  std::uint64_t sync_every;  // 0: the default
  AlgorithmOptions options;
  double paper;  // WAGMA over it, or its steps per second; NaN: not in the paper
};

RunGroup group(const Row& row, TrainOptions options) {
  options.algorithm = row.algorithm;
  options.sync_every = row.sync_every;
  options.algorithm_options = row.options;
  return {row.label, std::move(options), {}};
}

/// A step of a rank is one sample here, which takes what a step took there.
TrainOptions late_workers(const ReproduceCommand& command, int ranks, int late, const char* delay) {
  TrainOptions options = base_options(command, "digits");
  options.ranks = ranks;
  options.batch = 1;
  options.simulated = true;
  options.network = "latency=1us,bandwidth=10GB/s";
  options.no_gradients = true;
  options.model_bytes = kModelBytes;
  options.imbalance = fmt::format("random:ranks={},delay={}", std::min(late, ranks - 1), delay);
  if (!options.out.empty()) options.out += fmt::format("/{}-ranks", ranks);
  return options;
}

// The first is what the others are compared with.
const std::vector<Row>& wagma_rows() {
  static const std::vector<Row> rows = {
      {"sync (allreduce)", "sync", 0, {}, 1.26},
      {"local, H = 1", "local", 1, {}, 1.25},
      {"d-psgd", "d-psgd", 0, {}, 1.23},
      {"d-psgd, step first", "d-psgd", 0, {{"mix-order", "step-then-average"}}, 1.23},
      {"sgp, 2 neighbours", "sgp", 0, {{"neighbours", "2"}}, 1.25},
      {"eager-solo", "eager-solo", 0, {}, 1.13},
      {"ad-psgd", "ad-psgd", 0, {}, kNone},
      {"eager-quorum", "eager-quorum", 0, {}, kNone},
      {"wagma-quorum", "wagma-quorum", 0, {}, kNone},
      {"wagma", "wagma", 0, {}, 1},
  };
  return rows;
}

const std::vector<Row>& table2_rows() {
  static const std::vector<Row> rows = {
      {"asynchronous server", "ps-async", 0, {{"servers", "1"}}, 0.45},
      {"d-psgd", "d-psgd", 0, {{"mix-order", "step-then-average"}}, 0.94},
      {"sgp", "sgp", 0, {}, 1.02},
      {"eager-solo", "eager-solo", 0, {}, 1.19},
  };
  return rows;
}

double mean_over_runs(const RunGroup& group, double (*value)(const RunGroup&, const RunSummary&)) {
  std::vector<double> values;
  for (const RunSummary& run : group.runs) values.push_back(value(group, run));
  return mean(values);
}

double batches_per_second(const RunGroup&, const RunSummary& run) {
  return run.throughput;
}

/// What the papers count: iterations, also of ranks that had nothing new to bring.
double rounds_per_second(const RunGroup& group, const RunSummary& run) {
  const bool eager = group.options.algorithm.starts_with("eager");
  return eager ? static_cast<double>(run.rounds) / run.wall_seconds : run.throughput / run.ranks;
}

/// Of the batches that the drawn delays leave time for, without any communication.
double share_of_no_communication(const RunGroup&, const RunSummary& run) {
  return run.ideal_seconds / run.wall_seconds;
}

Judgement wagma_table(const Experiment& finished, bool required) {
  constexpr double kRequired = 1.25;
  Judgement judgement;
  STRETTO_CHECK(finished.groups.size() == wagma_rows().size(), finished.groups.size(), " groups");
  const RunGroup& wagma = finished.groups.back();
  const double batches = mean_over_runs(wagma, batches_per_second), rounds = mean_over_runs(wagma, rounds_per_second);
  Table table({"", "batches/s", "of no communication", "rounds/s", "wagma over it", "in rounds", "paper", ""});
  for (std::size_t i = 0; i < finished.groups.size(); ++i) {
    const RunGroup& group = finished.groups[i];
    const double over = batches / mean_over_runs(group, batches_per_second);
    const bool judged = required && (group.options.algorithm == "sync" || group.options.algorithm == "local");
    if (judged && over < kRequired) judgement.holds = false;
    table.add({group.label, significant(mean_over_runs(group, batches_per_second)),
               significant(mean_over_runs(group, share_of_no_communication)),
               significant(mean_over_runs(group, rounds_per_second)), significant(over) + "×",
               significant(rounds / mean_over_runs(group, rounds_per_second)) + "×", significant(wagma_rows()[i].paper),
               !judged             ? ""
               : over >= kRequired ? "pass: at least 1.25"
                                   : "FAIL: at least 1.25"});
  }
  judgement.text = table.to_text();
  return judgement;
}

}  // namespace

std::vector<Experiment> wagma_throughput_experiments(const ReproduceCommand& command) {
  std::vector<Experiment> out;
  const auto add = [&](int ranks, std::uint64_t steps, Judgement (*judge)(const Experiment&)) {
    TrainOptions options = late_workers(command, ranks, 2, "320ms");
    options.steps = std::max<std::uint64_t>(1, steps);
    Experiment experiment{
        fmt::format("{} ranks, each step {} of them 320 ms late", ranks, std::min(2, ranks - 1)), {}, {}, judge};
    for (const Row& row : wagma_rows()) {
      experiment.groups.push_back(group(row, options));
      experiment.expect.push_back(std::isnan(row.paper) ? "not in the paper" : fmt::format("paper {}", row.paper));
    }
    out.push_back(std::move(experiment));
  };
  for (const int ranks : {4, 16, 256, 1024}) {
    const auto share = static_cast<std::uint64_t>(ranks) / 64;  // fewer steps where a step takes longer to simulate
    if (ranks != command.ranks) add(ranks, command.steps / (share == 0 ? 1 : 2 * share), show_wagma_throughput);
  }
  add(command.ranks, command.steps, judge_wagma_throughput);
  return out;
}

std::vector<Experiment> table2_experiments(const ReproduceCommand& command) {
  Experiment experiment{
      fmt::format("{} ranks, each step {} of them 460 ms late", command.ranks, std::min(4, command.ranks - 1)),
      {},
      {},
      judge_table2};
  for (const Row& row : table2_rows()) {
    experiment.groups.push_back(group(row, late_workers(command, command.ranks, 4, "460ms")));
    experiment.expect.push_back(fmt::format("paper {} steps/s", row.paper));
  }
  return {experiment};
}

Judgement judge_wagma_throughput(const Experiment& finished) {
  Judgement judgement = wagma_table(finished, true);
  judgement.text +=
      "The paper counts rounds, on a machine whose network other jobs use; here nothing shares it. d-psgd sends the "
      "model "
      "that the next gradient is computed on,\nso that a neighbour who is late by less than a step holds nobody up; "
      "with "
      "the step first it does. A late rank of eager-solo computes on, and its batch counts a round later.\n";
  return judgement;
}

Judgement show_wagma_throughput(const Experiment& finished) {
  return wagma_table(finished, false);
}

Judgement judge_table2(const Experiment& finished) {
  Judgement judgement;
  STRETTO_CHECK(finished.groups.size() == table2_rows().size(), finished.groups.size(), " groups");
  Table table({"", "steps/s", "batches/s", "paper, steps/s"});
  std::vector<double> steps;
  for (std::size_t i = 0; i < finished.groups.size(); ++i) {
    const RunGroup& group = finished.groups[i];
    steps.push_back(mean_over_runs(group, rounds_per_second));
    table.add({group.label, significant(steps.back()), significant(mean_over_runs(group, batches_per_second)),
               significant(table2_rows()[i].paper)});
  }
  judgement.holds = std::is_sorted(steps.begin() + 1, steps.end());
  judgement.text =
      table.to_text() + fmt::format(
                            "d-psgd, then sgp, then eager-solo: {}. The server's network is unpublished; here it has "
                            "that of a rank.\n",
                            judgement.holds ? "pass" : "FAIL");
  return judgement;
}

}  // namespace stretto::command
