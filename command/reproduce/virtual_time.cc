#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "command/cli/table.h"
#include "command/reproduce/experiments.h"
#include "command/train/report.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr const char* kSmallAlgorithms[] = {"sync", "local", "wagma", "d-psgd", "eager-quorum", "eager-solo"};

/// A number of a run that virtual time should predict.
struct Predicted {
  const char* name;
  double RunSummary::*field;
  double relative;  // of the live one
  double absolute;  // or this, where it is larger
};
constexpr Predicted kPredicted[] = {{"batches/s", &RunSummary::throughput, 0.03, 0},
                                    {"rounds per batch", &RunSummary::rounds_per_batch, 0.05, 0},
                                    {"staleness", &RunSummary::staleness_mean, 0.05, 0.03}};

}  // namespace

std::vector<Experiment> virtual_time_experiments(const ReproduceCommand& command) {
  std::vector<Experiment> out;
  for (const int ranks : {std::max(1, command.ranks / 2), command.ranks}) {
    Experiment experiment{fmt::format("Live and in virtual time, {} ranks", ranks), {}, {}, judge_virtual_time};
    for (const char* algorithm : kSmallAlgorithms) {
      for (const bool simulated : {false, true}) {
        TrainOptions options = base_options(command, "vowels");
        options.algorithm = algorithm;
        options.ranks = ranks;
        options.simulated = simulated;
        options.seats = 1;  // simulated ranks send messages; a sum on a board has fresher models
        const std::string label = fmt::format("{}{}", algorithm, simulated ? ", simulated" : "");
        if (!options.out.empty()) options.out += fmt::format("/{}-ranks", ranks);
        experiment.groups.push_back({label, std::move(options), {}});
        experiment.expect.emplace_back(simulated ? "as live" : "the machine's");
      }
    }
    out.push_back(std::move(experiment));
  }
  return out;
}

Judgement judge_virtual_time(const Experiment& finished) {
  STRETTO_CHECK(finished.groups.size() % 2 == 0, finished.groups.size(), " groups are no pairs");
  Judgement judgement;
  Table table({"algorithm", "", "live", "virtual", "difference", "allowed", ""});
  for (std::size_t pair = 0; pair < finished.groups.size(); pair += 2) {
    const RunGroup &live = finished.groups[pair], &simulated = finished.groups[pair + 1];
    for (const Predicted& predicted : kPredicted) {
      const double real = mean_over_runs(live, predicted.field);
      const double model = mean_over_runs(simulated, predicted.field);
      const double allowed = std::max(predicted.relative * std::abs(real), predicted.absolute);
      const bool holds = std::abs(model - real) <= allowed;
      judgement.holds = judgement.holds && holds;
      table.add({live.label, predicted.name, significant(real), significant(model),
                 fmt::format("{:+.3f}", model - real), fmt::format("{:.3f}", allowed), holds ? "pass" : "FAIL"});
    }
  }
  judgement.text = table.to_text();
  return judgement;
}

}  // namespace stretto::command
