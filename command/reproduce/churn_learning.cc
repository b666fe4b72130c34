#include <fmt/format.h>

#include <algorithm>

#include "command/cli/table.h"
#include "command/reproduce/experiments.h"
#include "command/statistics/statistics.h"
#include "stretto/train/simulated/churn.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

/// Algorithms of each kind that goes on where members change.
constexpr const char* kLearning[] = {"sync", "eager-quorum", "diloco", "wagma-quorum"};

/// Of eight members one is lost, or leaves, every ten seconds, and as often another one comes in its place.
const Churn kChanging{.life = 80s, .notice = 0.5, .back = 5s};

std::vector<double> accuracies(const RunGroup& group) {
  std::vector<double> out;
  for (const RunSummary& run : group.runs) out.push_back(run.accuracy.value_or(kNone));
  return out;
}

double mean_changes(const RunGroup& group) {
  std::vector<double> out;
  for (const RunSummary& run : group.runs) {
    out.push_back(run.members ? static_cast<double>(run.members->worlds.size() - 1) : 0);
  }
  return mean(out);
}

std::string range(std::vector<double> values) {
  std::ranges::sort(values);
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", median(values), values.front(), values.back());
}

}  // namespace

std::vector<Experiment> churn_learning_experiments(const ReproduceCommand& command) {
  TrainOptions options = base_options(command, "vowels");
  options.simulated = true;
  options.data = "shared";
  Experiment experiment{"Members that come and go, beside the same that stay", {}, {}, judge_churn_learning};
  for (const char* algorithm : kLearning) {
    options.algorithm = algorithm;
    experiment.groups.push_back({algorithm, options, {}});
    experiment.expect.emplace_back("what the other is compared with");
    TrainOptions changing = options;
    changing.least = std::max(1, command.ranks / 4);
    changing.churn = to_text(kChanging);
    experiment.groups.push_back({fmt::format("{}, members change", algorithm), std::move(changing), {}});
    experiment.expect.emplace_back("as accurate after as many batches");
  }
  return {experiment};
}

Judgement judge_churn_learning(const Experiment& finished) {
  Judgement judgement;
  Table table({"algorithm", "changes", "accuracy, members stay", "accuracy, members change"});
  for (std::size_t i = 0; i + 1 < finished.groups.size(); i += 2) {
    const RunGroup &staying = finished.groups[i], &changing = finished.groups[i + 1];
    const std::vector<double> without = accuracies(staying), with = accuracies(changing);
    table.add({staying.label, significant(mean_changes(changing)), range(without), range(with)});
    const double lowest = std::ranges::min(without);
    judgement.statements.push_back({staying.label + ": the median with changes is no lower than the lowest without",
                                    fmt::format("{:.3f}", lowest), fmt::format("{:.3f}", median(with)),
                                    median(with) >= lowest});
  }
  judgement.holds = std::ranges::all_of(judgement.statements, &Statement::holds);
  judgement.text = table.to_text() + "\n" + statements_table(judgement.statements);
  return judgement;
}

}  // namespace stretto::command
