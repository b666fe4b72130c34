#include "stretto/train/simulated/churn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "command/cli/table.h"
#include "command/reproduce/experiments.h"
#include "command/statistics/restarts.h"
#include "command/statistics/statistics.h"
#include "stretto/train/recipes/recipes.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

constexpr Duration kLives[] = {30min, 120min};
constexpr Duration kBack = 60s;               // until another machine is there
constexpr Duration kDetect = 1s;              // until a loss is known
constexpr double kStepsAChange = 1;           // of every member: the rest of a step, and a joiner's first
constexpr double kWithin = 1.0 / 3;           // of it
constexpr std::uint64_t kEnoughChanges = 20;  // for a mean

const char* const kChurned[] = {"sync", "eager-quorum", "local"};

}  // namespace

/// The share of the members' time that has gone into no batch, and what a change has taken of it.
MembersCost members_cost(const RunSummary& run, double step) {
  const auto& worlds = run.members->worlds;
  double there = 0;
  for (std::size_t i = 0; i < worlds.size(); ++i) {
    const double end = i + 1 < worlds.size() ? worlds[i + 1].seconds : run.wall_seconds;
    there += static_cast<double>(worlds[i].members.size()) * (end - worlds[i].seconds);
  }
  const double useful = static_cast<double>(run.deposits.applied) * step;
  const auto changes = static_cast<double>(worlds.size() - 1);
  const double members = there / run.wall_seconds;
  return {.changes = worlds.size() - 1,
          .members = members,
          .lost_share = 1 - useful / there,
          .steps_a_change = changes > 0 ? (there - useful) / members / changes / step : 0};
}

std::vector<Experiment> churn_experiments(const ReproduceCommand& command) {
  std::vector<Experiment> out;
  for (const int ranks : {std::max(4, command.ranks / 4), std::max(4, command.ranks)}) {
    for (const Duration life : kLives) {
      Churn churn{.life = life, .back = kBack, .detect = kDetect};
      TrainOptions options = base_options(command, "digits");
      options.ranks = ranks;
      options.least = std::max(1, ranks / 4);
      options.batch = 1;
      options.simulated = options.no_gradients = true;
      options.churn = to_text(churn);
      Experiment experiment{
          fmt::format("{} members that live {} in the mean", ranks, to_text(life)), {}, {}, judge_churn};
      for (const char* algorithm : kChurned) {
        options.algorithm = algorithm;
        TrainOptions own = options;
        if (!own.out.empty()) own.out += fmt::format("/{}-members-{}", ranks, to_text(life));
        experiment.expect.emplace_back("a step a change, and faster than restarts");
        experiment.groups.push_back({fmt::format("{}, life {}", algorithm, to_text(life)), std::move(own), {}});
      }
      out.push_back(std::move(experiment));
    }
    if (command.ranks <= 4) break;
  }
  return out;
}

Judgement judge_churn(const Experiment& finished) {
  Judgement judgement;
  const TrainOptions& options = finished.groups.front().options;
  const double step = seconds(options.pace) * options.time_scale;
  const double life = seconds(parse_churn(options.churn, options.ranks).life);
  const double restarts = restarts_keep({.members = options.ranks, .life = life, .step = step});
  Table table({"algorithm", "changes", "steps a change", "lost of the members' time", "batches/s", "restarts"});
  for (const RunGroup& group : finished.groups) {
    std::vector<double> lost, a_change, rates, members;
    std::uint64_t changes = 0;
    for (const RunSummary& run : group.runs) {
      const MembersCost cost = members_cost(run, step);
      lost.push_back(cost.lost_share);
      a_change.push_back(cost.steps_a_change);
      rates.push_back(run.throughput);
      members.push_back(cost.members);
      changes += cost.changes;
    }
    const double of_restarts = restarts * mean(members) / step;
    table.add({group.label, std::to_string(changes), fmt::format("{:.2f}", mean(a_change)), percent(mean(lost)),
               significant(mean(rates)), significant(of_restarts)});
    const bool is_sync = group.options.algorithm == "sync";
    if (is_sync && changes >= kEnoughChanges) {
      judgement.statements.push_back({"sync: a change costs every member about a step, within a third",
                                      fmt::format("{}", kStepsAChange), fmt::format("{:.2f}", mean(a_change)),
                                      std::abs(mean(a_change) - kStepsAChange) <= kWithin * kStepsAChange});
    }
    if (!is_sync && changes >= kEnoughChanges) {
      // Where ranks meet after a phase they wait for the rest of a newcomer's.
      const bool in_phases = find_recipe(group.options.algorithm)->local_steps != 0;
      const double most = in_phases ? static_cast<double>(group.options.sync_every) / 2 : (1 + kWithin) * kStepsAChange;
      judgement.statements.push_back({fmt::format("{}: a change costs every member at most {}", group.options.algorithm,
                                                  in_phases ? "half a phase" : "that"),
                                      fmt::format("{:.2f}", most), fmt::format("{:.2f}", mean(a_change)),
                                      mean(a_change) <= most});
    }
    judgement.statements.push_back({group.options.algorithm + ": faster than restarts from checkpoints",
                                    significant(of_restarts), significant(mean(rates)), mean(rates) > of_restarts});
  }
  judgement.holds = std::ranges::all_of(judgement.statements, &Statement::holds);
  const double reckoned = 2 * options.ranks / life * kStepsAChange * step;
  judgement.text = fmt::format("{}\nReckoned with two changes a life and {} step each: {} lost. Restarts: {}.\n\n{}",
                               table.to_text(), kStepsAChange, percent(reckoned), restarts_in_words(),
                               statements_table(judgement.statements));
  return judgement;
}

}  // namespace stretto::command
