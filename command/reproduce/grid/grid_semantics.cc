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

enum GridRows : std::size_t {
  kGridSync,
  kGridWagma,
  kGridPaper,
  kGridCarryLess,
  kGridCarry,
  kGridAlike,
  kGridMissing,
  kGridInt8,
};

const AlgorithmOptions kAlikeOptions{{"average-momentum", "yes"}};

/// As the enumeration above.
const std::vector<AlgorithmRow>& grid_rows() {
  static const std::vector<AlgorithmRow> rows = {
      {"sync", "sync", 0, {}, kNone},
      {"wagma-quorum", "wagma-quorum", 0, {}, kNone},
      {"grid, paper, alpha 0.3", "easgd-grid", 0, {{"elastic-rule", "paper"}, {"alpha", "0.3"}}, kNone},
      {"grid, carry, alpha 0.3", "easgd-grid", 0, {{"alpha", "0.3"}}, kNone},
      {"grid, carry, alpha 0.5", "easgd-grid", 0, {}, kNone},
      {"the same, momentum alike", "easgd-grid", 0, kAlikeOptions, kNone},
      {"and a quarter missing", "easgd-grid", 0, {{"average-momentum", "yes"}, {"reduce-share", "0.75"}}, kNone},
      {"momentum alike, int8", "easgd-grid", 0, {{"average-momentum", "yes"}, {"compression", "int8"}}, kNone},
  };
  return rows;
}

constexpr Claim kGridRequired[] = {
    {kGridAlike, Claim::Kind::below, kGridPaper},
    {kGridAlike, Claim::Kind::not_above, kGridCarry},
    {kGridInt8, Claim::Kind::not_above, kGridAlike},
};
/// What differs from one imbalance to another.
constexpr Claim kGridOpen[] = {
    {kGridAlike, Claim::Kind::not_above, kGridWagma},
    {kGridAlike, Claim::Kind::not_above, kGridSync},
    {kGridCarry, Claim::Kind::not_above, kGridCarryLess},
    {kGridMissing, Claim::Kind::not_above, kGridAlike},
};

/// `speed`: of all ranks, beside that of ranks that nothing delays.
Experiment grid_experiment(const std::string& title, const std::string& folder, TrainOptions options, double speed) {
  if (!options.out.empty()) options.out += "/" + folder;
  Experiment out{title, {}, {}, judge_grid_semantics};
  for (const AlgorithmRow& row : grid_rows()) {
    RunGroup group = group_of(row, options);
    if (row.algorithm == "easgd-grid") {
      // Evaluations are rounds of all: there is one at the end, when the time is nearly over.
      group.options.evaluate_every = 0;
      const double fit = std::floor(static_cast<double>(options.steps) * speed) - 1;
      group.options.steps = static_cast<std::uint64_t>(std::max(1.0, fit));
    }
    out.groups.push_back(std::move(group));
    out.expect.emplace_back("not in the paper");
  }
  return out;
}

/// Messages come late by up to half of their latency, so that it is not always the same contribution that is missing.
TrainOptions grid_model(const ReproduceCommand& command, int ranks, double lr, double steps_a_message = 0.008) {
  TrainOptions options = small_model(command, ranks, lr);
  const Duration latency = from_seconds(seconds(step_of(command)) * command.scale * steps_a_message);
  options.network =
      fmt::format("latency={},bandwidth=10GB/s,jitter={}", to_text(latency * 3 / 4), to_text(latency / 2));
  return options;
}

}  // namespace

std::vector<Experiment> grid_semantics_experiments(const ReproduceCommand& command) {
  const int all = command.ranks, quarter = std::max(4, all / 4), late_ranks = std::max(1, all / 32);
  const Duration step = step_of(command);
  TrainOptions lognormal = with_lognormal_steps(grid_model(command, quarter, 0.4), command);
  lognormal.data = "shared";
  TrainOptions slow = grid_model(command, quarter, 0.3);
  slow.imbalance = fmt::format("persistent:rank={},factor=2", std::min(3, quarter - 1));
  const auto late = [&](double steps_a_message) {
    TrainOptions options = grid_model(command, all, 0.4, steps_a_message);
    options.imbalance = fmt::format("random:ranks={},delay={}+lognormal:mean={},cv=1", late_ranks, to_text(step / 2),
                                    to_text(step * 3 / 100));
    return options;
  };
  const double late_speed = 1 / (1.03 + 0.5 * late_ranks / all);
  const std::string late_title =
      fmt::format("{} ranks, {} of them late by half a step each time, labels skewed", all, late_ranks);
  std::vector<Experiment> out{
      grid_experiment(fmt::format("{} ranks, log-normal steps", quarter), "lognormal", std::move(lognormal), 1),
      grid_experiment(fmt::format("{} ranks, one of them twice as slow throughout, labels skewed", quarter), "slow",
                      std::move(slow), 1 - 0.5 / quarter),
      grid_experiment(late_title, "late", late(0.008), late_speed),
      grid_experiment(late_title + ", a round of a line takes 1.5 steps", "late-slow-network", late(0.375),
                      late_speed)};
  out.back().judge = show_grid_semantics;
  return out;
}

namespace {

Judgement judge_grid(const Experiment& finished, std::span<const Claim> required, std::span<const Claim> open) {
  STRETTO_CHECK(finished.groups.size() == grid_rows().size(), finished.groups.size(), " groups");
  const double end = seconds_of_all_steps(finished.groups.front().options);
  std::vector<std::vector<double>> losses;
  Table table({"", fmt::format("training loss after {} s", significant(end)), "batches applied a second", "seconds"});
  for (const RunGroup& group : finished.groups) {
    std::vector<double> throughput, wall;
    losses.emplace_back();
    for (const RunSummary& run : group.runs) {
      losses.back().push_back(train_loss_at(run, end));
      throughput.push_back(run.throughput);
      wall.push_back(run.wall_seconds);
    }
    table.add({group.label, with_spread(mean(losses.back()), standard_deviation(losses.back())),
               significant(mean(throughput)), significant(mean(wall))});
  }
  Judgement judgement = judge_claims(finished, "training loss", required, losses);
  judgement.text = table.to_text() + (required.empty() ? "" : judgement.text) +
                   judge_claims(finished, "not required", open, losses).text;
  return judgement;
}

}  // namespace

Judgement judge_grid_semantics(const Experiment& finished) {
  return judge_grid(finished, kGridRequired, kGridOpen);
}

Judgement show_grid_semantics(const Experiment& finished) {
  std::vector<Claim> all(std::begin(kGridRequired), std::end(kGridRequired));
  all.insert(all.end(), std::begin(kGridOpen), std::end(kGridOpen));
  return judge_grid(finished, {}, all);
}

}  // namespace stretto::command
