#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "command/cli/table.h"
#include "command/reproduce/experiments.h"
#include "command/statistics/statistics.h"
#include "command/train/report.h"

namespace stretto::command {

namespace {

/// The first is what the others are compared with.
constexpr const char* kLiveAlgorithms[] = {"sync",   "wagma", "wagma-quorum", "local",       "diloco",
                                           "d-psgd", "sgp",   "ad-psgd",      "eager-quorum"};
/// Those that the paper compares with, on 16 ranks; its local SGD averages in every step, ours in every eighth.
constexpr const char* kBehindWagma[] = {"sync", "d-psgd", "sgp", "ad-psgd"};

constexpr int kTimes = 4;  // until which the losses are compared

struct Sequences {
  const char* workload;
  std::uint64_t evaluate_every;  // batches; rank 0 evaluates within the time of the run: some four times in 20 epochs
};
constexpr Sequences kSequences[] = {{"vowels", 300}, {"plaid", 600}};

/// The mean training loss between two times. NaN where no piece of the curve ends there.
double loss_between(const RunSummary& run, double from, double to) {
  std::vector<double> losses;
  for (const auto& point : run.curve) {
    if (from < point.seconds && point.seconds <= to) losses.push_back(point.loss);
  }
  return losses.empty() ? std::numeric_limits<double>::quiet_NaN() : mean(losses);
}

/// A line for each algorithm: its mean training loss within each quarter of the time that the fastest run takes.
std::string losses_over_time(const Experiment& finished) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const RunGroup& group : finished.groups) {
    for (const RunSummary& run : group.runs) shortest = std::min(shortest, run.wall_seconds);
  }
  std::vector<std::string> head{"training loss until"};
  for (int i = 1; i <= kTimes; ++i) head.push_back(significant(shortest * i / kTimes) + " s");
  Table table(head);
  for (const RunGroup& group : finished.groups) {
    std::vector<std::string> cells{group.label};
    for (int i = 1; i <= kTimes; ++i) {
      std::vector<double> losses;
      for (const RunSummary& run : group.runs)
        losses.push_back(loss_between(run, shortest * (i - 1) / kTimes, shortest * i / kTimes));
      cells.push_back(with_spread(mean(losses), standard_deviation(losses)));
    }
    table.add(cells);
  }
  return table.to_text();
}

}  // namespace

std::vector<Experiment> wagma_live_experiments(const ReproduceCommand& command) {
  std::vector<Experiment> out;
  for (const auto& [workload, evaluate_every] : kSequences) {
    Experiment experiment{
        fmt::format("{}: sequences of different length, nothing injected", workload), {}, {}, judge_wagma_live};
    for (const char* algorithm : kLiveAlgorithms) {
      TrainOptions options = base_options(command, workload);
      options.algorithm = algorithm;
      options.evaluate = "replica";  // where ranks never have the same model there is no average to evaluate
      options.evaluate_every = evaluate_every;
      if (!options.out.empty()) options.out += fmt::format("/{}", workload);
      experiment.groups.push_back({algorithm, std::move(options), {}});
      experiment.expect.emplace_back(experiment.groups.size() == 1 ? "1" : "no figure in the paper");
    }
    out.push_back(std::move(experiment));
  }
  return out;
}

Judgement judge_wagma_live(const Experiment& finished) {
  const RunGroup& wagma = labelled(finished, "wagma");
  Judgement judgement;
  for (const char* other : kBehindWagma) {
    const double gain = mean(speedups(labelled(finished, other), wagma));
    judgement.statements.push_back({fmt::format("wagma applies more batches a second than {}", other),
                                    "yes, on 16 ranks", significant(gain) + "×", gain > 1});
  }
  judgement.text =
      losses_over_time(finished) + "\n" + statements_table(judgement.statements) +
      "Rank 0 evaluates its model now and then, which is in the times: a sync waits for it, a quorum does not.\n";
  return judgement;
}

}  // namespace stretto::command
