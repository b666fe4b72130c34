#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "command/cli/table.h"
#include "command/reproduce/experiments.h"
#include "command/statistics/statistics.h"
#include "command/train/report.h"

namespace stretto::command {

namespace {

// Peng, UCB/EECS-2018-77, chapter 4: AlexNet, batches of 128 samples, a link of 1.24 Gbit/s each way.
constexpr std::uint64_t kAlexNetBytes = 4 * 62'378'344ull;
constexpr const char* kCloudLink = "latency=50us,bandwidth=1.24Gbit/s";
constexpr int kSamplesAStep = 128;
constexpr double kGridKeeps = 0.95, kServersKeep = 0.5;  // of the ideal: at least, and less than
constexpr double kPaperAlpha = 0.3;
constexpr std::uint64_t kMostStepsApart = 1000;  // between full rounds, where members change; a run has fewer
constexpr int kMostInALine = 512;                // a line of 1,024 nodes takes 5 GB
constexpr const char* kChurn = "life=30min,back=60s,detect=1s";

/// The paper's shares of the ideal, Table 4.1.
struct PaperShare {
  int nodes;
  double grid, servers_sync, servers_async;
};
constexpr PaperShare kPaperShares[] = {{4, 0.87, 0.42, 0.44}, {16, 0.86, 0.31, 0.36}};

/// A step of a node is one sample here, which takes what a step of 128 took there.
TrainOptions cloud_nodes(const ReproduceCommand& command, int nodes) {
  TrainOptions options = base_options(command, "digits");
  options.ranks = nodes;
  options.batch = 1;
  options.simulated = options.no_gradients = true;
  options.network = kCloudLink;
  options.model_bytes = kAlexNetBytes;
  return options;
}

bool is_grid(const RunGroup& group) {
  return group.options.algorithm == "easgd-grid";
}

/// Of the time up to the last step, in steps.
double share_while_training(const RunSummary& run) {
  return run.ideal_seconds / (run.ideal_seconds + run.wait_share * run.wall_seconds);
}

/// In which all ranks meet at the end.
double seconds_at_the_end(const RunSummary& run) {
  return std::max(0.0, run.wall_seconds * (1 - run.wait_share) - run.ideal_seconds);
}

/// The paper's τ, in the mean over nodes and dimensions.
double steps_of_a_round(const RunSummary& run) {
  std::vector<double> steps;
  for (const auto& dimension : run.lines) {
    for (const GridCounts& counts : dimension) steps.push_back(counts.steps_per_round());
  }
  return mean(steps);
}

std::string steps_in_words(const RunGroup& group) {
  return is_grid(group) && group.options.ranks > 1 ? significant(mean_over_runs(group, steps_of_a_round)) : "–";
}

RunGroup grid_of(std::string label, TrainOptions options, const AlgorithmOptions& given) {
  return group_of({label, "easgd-grid", 0, given, kNone}, std::move(options));
}

/// The experiment of Table 4.1: servers on all nodes, among which the model is shared out.
Experiment table_41(const ReproduceCommand& command, int nodes) {
  TrainOptions options = cloud_nodes(command, nodes);
  if (!options.out.empty()) options.out += fmt::format("/{}-nodes", nodes);
  Experiment out{
      fmt::format("{} node{}, the paper's step and link", nodes, nodes == 1 ? "" : "s"),
      {grid_of("grid, paper", options, {{"elastic-rule", "paper"}, {"alpha", fmt::format("{}", kPaperAlpha)}}),
       grid_of("grid, carry", options, {})},
      {},
      judge_grid_scaling};
  options.model_buckets = nodes;
  for (const char* servers : {"ps-sync", "ps-async"}) {
    out.groups.push_back(group_of({servers, servers, 0, {{"servers", std::to_string(nodes)}}, kNone}, options));
  }
  out.expect.assign(out.groups.size(), "see the statements");
  return out;
}

/// Many nodes, in lines of ever more dimensions. α is at most 1/d.
Experiment many_nodes(TrainOptions options, const std::string& folder, std::string title, std::vector<int> dimensions) {
  if (!options.out.empty()) options.out += "/" + folder;
  Experiment out{std::move(title), {group_of({"sync", "sync", 0, {}, kNone}, options)}, {}, judge_many_nodes};
  for (const int d : dimensions) {
    const AlgorithmOptions given{{"dimensions", std::to_string(d)},
                                 {"alpha", fmt::format("{:.3f}", std::min(0.5, 0.999 / d))}};
    out.groups.push_back(grid_of(fmt::format("grid, d = {}", d), options, given));
    if (options.least > 0) out.groups.back().options.sync_every = kMostStepsApart;
  }
  out.expect.assign(out.groups.size(), "see the statements");
  return out;
}

/// 1, 2, 3, and as many as lines of two nodes have. One of many nodes is left out: each sends messages to all others.
std::vector<int> dimensions_up_to(int nodes) {
  const int most = static_cast<int>(std::log2(nodes));
  std::vector<int> out;
  for (int d = nodes > kMostInALine ? 2 : 1; d <= std::min(3, most); ++d) out.push_back(d);
  if (most > 3) out.push_back(most);
  return out;
}

Judgement judged(std::string table, std::vector<Statement> statements) {
  Judgement out;
  out.holds = std::ranges::all_of(statements, &Statement::holds);
  out.text = std::move(table) + (statements.empty() ? "" : "\n" + statements_table(statements));
  out.statements = std::move(statements);
  return out;
}

}  // namespace

std::vector<Experiment> grid_scaling_experiments(const ReproduceCommand& command) {
  std::vector<Experiment> out;
  for (const int nodes : {1, 4, 16}) out.push_back(table_41(command, nodes));
  const int late = std::max(1, command.ranks / 32);
  TrainOptions many = cloud_nodes(command, command.ranks);
  // A step of so many takes longer to simulate.
  many.steps = std::max<std::uint64_t>(1, command.steps * 16 / static_cast<std::uint64_t>(std::max(64, command.ranks)));
  many.imbalance = fmt::format("random:ranks={},delay={}", late, to_text(command.pace / 2));
  const std::string title = fmt::format("{} nodes, each step {} of them late by half a step", command.ranks, late);
  out.push_back(many_nodes(many, "late", title, dimensions_up_to(command.ranks)));
  many.least = std::max(1, command.ranks / 4);
  many.churn = kChurn;
  out.push_back(many_nodes(many, "lost", title + ", which live half an hour each", dimensions_up_to(many.least)));
  return out;
}

Judgement judge_grid_scaling(const Experiment& finished) {
  const int nodes = finished.groups.front().options.ranks;
  const auto paper = std::ranges::find(kPaperShares, nodes, &PaperShare::nodes);
  Table table({"", "samples/s", "of the ideal", "of it while training", "seconds at the end", "own steps a round"});
  std::vector<Statement> statements;
  for (const RunGroup& group : finished.groups) {
    const double share = mean_over_runs(group, share_of_ideal);
    table.add({group.label,
               significant(kSamplesAStep * mean_over_runs(group, [](const auto& run) { return run.throughput; })),
               percent(share), percent(mean_over_runs(group, share_while_training)),
               significant(mean_over_runs(group, seconds_at_the_end)), steps_in_words(group)});
    if (paper == std::end(kPaperShares)) continue;
    const bool grid = is_grid(group);
    const double theirs = grid                                   ? paper->grid
                          : group.options.algorithm == "ps-sync" ? paper->servers_sync
                                                                 : paper->servers_async;
    statements.push_back({fmt::format("{}, {} nodes: {} {} of the ideal", group.label, nodes,
                                      grid ? "at least" : "less than", percent(grid ? kGridKeeps : kServersKeep, 0)),
                          percent(theirs, 0), percent(share), grid ? share >= kGridKeeps : share < kServersKeep});
  }
  return judged(table.to_text(), std::move(statements));
}

Judgement judge_many_nodes(const Experiment& finished) {
  const TrainOptions& options = finished.groups.front().options;
  const bool change = !options.churn.empty();
  const double step = seconds(options.pace) * options.time_scale;
  Table table(change ? std::vector<std::string>{"", "batches/s", "changes", "steps a change", "lost of the nodes' time"}
                     : std::vector<std::string>{"", "batches/s", "of the ideal while training", "seconds at the end",
                                                "own steps a round"});
  std::vector<Statement> statements;
  const auto rate_of = [](const RunGroup& group) {
    return mean_over_runs(group, [](const RunSummary& run) { return run.throughput; });
  };
  const double sync = rate_of(finished.groups.front());
  for (const RunGroup& group : finished.groups) {
    const double rate = rate_of(group);
    if (change) {
      const auto cost = [&](auto field) {
        return mean_over_runs(
            group, [&](const RunSummary& run) { return static_cast<double>(members_cost(run, step).*field); });
      };
      table.add({group.label, significant(rate), significant(cost(&MembersCost::changes)),
                 significant(cost(&MembersCost::steps_a_change)), percent(cost(&MembersCost::lost_share))});
    } else {
      const double training = mean_over_runs(group, share_while_training);
      table.add({group.label, significant(rate), percent(training),
                 significant(mean_over_runs(group, seconds_at_the_end)), steps_in_words(group)});
      if (is_grid(group)) {
        statements.push_back(
            {fmt::format("{}: at least {} of the ideal while training", group.label, percent(kGridKeeps, 0)),
             "not in the paper", percent(training), training >= kGridKeeps});
      }
    }
    if (is_grid(group)) {
      statements.push_back({group.label + ": twice the batches of sync", "not in the paper",
                            significant(rate / sync) + "×", rate >= 2 * sync});
    }
  }
  return judged(table.to_text(), std::move(statements));
}

}  // namespace stretto::command
