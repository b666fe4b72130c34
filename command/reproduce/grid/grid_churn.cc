#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <set>
#include <tuple>

#include "command/cli/table.h"
#include "command/reproduce/experiments.h"
#include "command/reproduce/small_model.h"
#include "command/train/report.h"
#include "stretto/train/simulated/churn.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

constexpr Duration kLifeInAFleet = 2h;
constexpr Duration kAnotherComes = 10s, kLossIsKnown = 1s;
constexpr int kStepsAreOf = 64;             // members; fewer have more, so that as many are lost
constexpr int kTooFew = 16, kEnough = 256;  // members: there the grid does not pay, and does
constexpr double kMostOfAStep = 1;          // that a change takes of every member where all change worlds
constexpr std::uint64_t kStepsApart = 100;  // between rounds of all, as with a range by itself
constexpr const char* kLink = "latency=50us,bandwidth=10GB/s";

enum ChurnRows : std::size_t { kAllChangeWorlds, kLinesChange };
constexpr Claim kGridPays{kLinesChange, Claim::Kind::below, kAllChangeWorlds};
constexpr Claim kGridDoesNot{kAllChangeWorlds, Claim::Kind::not_above, kLinesChange};

double step_seconds(const TrainOptions& options) {
  return seconds(options.pace) * options.time_scale;
}

double lost_of(const RunSummary& run, const TrainOptions& options) {
  const double there =
      members_time(parse_churn(options.churn, options.ranks), run.seed, options.ranks, run.wall_seconds);
  return 1 - static_cast<double>(run.deposits.applied) * step_seconds(options) / there;
}

/// Of each run, so that less is better.
std::vector<std::vector<double>> seconds_a_batch(const Experiment& finished) {
  std::vector<std::vector<double>> out;
  for (const RunGroup& group : finished.groups) {
    out.emplace_back();
    for (const RunSummary& run : group.runs) out.back().push_back(1 / run.throughput);
  }
  return out;
}

/// Ratios by the number of members, ascending.
using Curve = std::vector<std::pair<int, double>>;

/// From how many members on ratios are below 1, on the line between the last one above and the next; nothing: they
/// always are, or are not at the end.
std::optional<double> where_below_1(const Curve& curve) {
  for (std::size_t i = curve.size(); i-- > 1;) {
    const auto [members, ratio] = curve[i];
    const auto [fewer, before] = curve[i - 1];
    if (ratio >= 1) break;
    if (before >= 1) return fewer + (members - fewer) * (before - 1) / (before - ratio);
  }
  return std::nullopt;
}

std::string or_beyond(const std::optional<double>& members, const char* beyond) {
  return members ? fmt::format("{:.0f}", *members) : beyond;
}

double mean_lost(const RunGroup& group) {
  return mean_over_runs(group, [&](const RunSummary& run) { return lost_of(run, group.options); });
}

}  // namespace

double members_time(const Churn& churn, std::uint64_t seed, int places, double seconds) {
  struct Process {
    double begins;
    int place;
    bool operator<(const Process& other) const {  // the earliest is on top
      return std::tie(begins, place) > std::tie(other.begins, other.place);
    }
  };
  std::priority_queue<Process> coming;
  for (int place = 0; place < places; ++place) coming.push({0, place});
  double all = 0;
  for (std::uint64_t number = 0; !coming.empty() && coming.top().begins < seconds; ++number) {
    const Process process = coming.top();
    coming.pop();
    const Churn::End end = churn.end_of(seed, number);
    const double until = end.after ? process.begins + stretto::seconds(*end.after) : seconds;
    all += std::min(until, seconds) - process.begins;
    if (churn.back) coming.push({until + stretto::seconds(*churn.back), process.place});
  }
  return all;
}

std::vector<Experiment> grid_churn_experiments(const ReproduceCommand& command) {
  std::set<int> sizes{command.ranks};
  for (const int members : {kTooFew, kStepsAreOf, kEnough}) sizes.insert(std::min(members, command.ranks));
  std::vector<Experiment> out;
  for (const int members : sizes) {
    TrainOptions options = base_options(command, "digits");
    options.ranks = members;
    options.least = std::max(1, members / 4);
    options.batch = 1;
    options.simulated = options.no_gradients = true;
    options.network = kLink;
    // Of more than enough members more are lost: all of them have to meet some times.
    const auto at_most = static_cast<std::uint64_t>(std::min(members, kEnough));
    options.steps = std::max<std::uint64_t>(1, command.steps * kStepsAreOf / at_most);
    options.churn = to_text(Churn{.life = kLifeInAFleet, .back = kAnotherComes, .detect = kLossIsKnown});
    if (!options.out.empty()) options.out += fmt::format("/{}-members", members);
    out.push_back({fmt::format("{} members that live {} in the mean", members, to_text(kLifeInAFleet)),
                   {group_of({"eager-quorum", "eager-quorum", 0, {}, kNone}, options),
                    group_of({"easgd-grid", "easgd-grid", kStepsApart, {}, kNone}, options)},
                   {"all change worlds", "lines change"},
                   judge_grid_churn});
  }
  return out;
}

Judgement judge_grid_churn(const Experiment& finished) {
  const TrainOptions& options = finished.groups.front().options;
  const double life = seconds(parse_churn(options.churn, options.ranks).life);
  const double reckoned = 2 * options.ranks / life * kMostOfAStep * step_seconds(options);
  Table table({"", "batches/s", "lost of the members' time", "worlds of all"});
  for (const RunGroup& group : finished.groups) {
    const auto worlds = [](const RunSummary& run) { return static_cast<double>(run.members->worlds.size()); };
    table.add({group.label, significant(mean_over_runs(group, &RunSummary::throughput), 4), percent(mean_lost(group)),
               significant(mean_over_runs(group, worlds))});
  }
  const auto values = seconds_a_batch(finished);
  const Claim claims[] = {options.ranks < kStepsAreOf ? kGridDoesNot : kGridPays};
  const bool is_between = options.ranks >= kStepsAreOf && options.ranks < kEnough;
  Judgement judgement =
      judge_claims(finished, is_between ? "seconds a batch, not required" : "seconds a batch", claims, values);
  if (is_between) {
    judgement.holds = true;
    judgement.statements.clear();
  }
  const double lost = mean_lost(finished.groups[kAllChangeWorlds]);
  judgement.statements.push_back(
      {fmt::format("{} members, eager-quorum: changes take at most a step of each", options.ranks), percent(reckoned),
       percent(lost), lost <= reckoned});
  judgement.holds = judgement.holds && judgement.statements.back().holds;
  judgement.text =
      table.to_text() + "\n" + judgement.text + "\n" + statements_table(std::span(&judgement.statements.back(), 1));
  return judgement;
}

Judgement judge_where_grid_pays(std::span<const Experiment> finished) {
  Judgement judgement;
  std::optional<int> from;
  Curve estimate, low, high;
  for (const Experiment& experiment : finished) {
    const Claim claims[] = {kGridPays};
    const bool known = experiment.groups.front().runs.size() > 1;
    const auto values = seconds_a_batch(experiment);
    const bool pays = known && judge_claims(experiment, "seconds a batch", claims, values).holds;
    const int members = experiment.groups.front().options.ranks;
    from = !pays ? std::nullopt : from.has_value() ? from : members;
    if (!known) continue;
    const Interval ratio = ratio_of(values[kLinesChange], values[kAllChangeWorlds]);
    estimate.emplace_back(members, ratio.estimate);
    low.emplace_back(members, ratio.low);
    high.emplace_back(members, ratio.high);
  }
  judgement.text = from ? fmt::format("The grid pays from {} members of those measured, with 95 % confidence.\n", *from)
                        : "With these numbers of members and runs the grid does not pay with 95 % confidence.\n";
  if (const auto at = where_below_1(estimate)) {
    judgement.text += fmt::format("On the line between them it is as fast with {:.0f} members ({} to {}).\n", *at,
                                  or_beyond(where_below_1(low), "fewer"), or_beyond(where_below_1(high), "more"));
  }
  return judgement;
}

}  // namespace stretto::command
