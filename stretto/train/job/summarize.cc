#include "stretto/train/job/summarize.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "stretto/collective/protocol/policy.h"
#include "stretto/imbalance/ideal.h"
#include "stretto/observe/quantile.h"

namespace stretto {
namespace {

constexpr std::uint64_t kCurvePoints = 200;

// The batches that were left to do, in the order in which they are handed out when shared.
class StepTimes {
 public:
  StepTimes(const RunPlan& plan, const Checkpoint* resume, double seconds_per_unit)
      : plan_(plan), batches_(plan.batches), seconds_per_unit_(seconds_per_unit) {
    if (resume != nullptr) start_ = resume->position;
    start_.steps.resize(static_cast<std::size_t>(plan.options.ranks));
  }

  Duration operator()(int rank, std::uint64_t step, std::uint64_t batch) {
    const std::uint64_t returned = start_.returned.size();
    const std::uint64_t sequence =
        batch < returned ? start_.returned[static_cast<std::size_t>(batch)] : start_.next + batch - returned;
    const std::uint64_t own_step = start_.steps[static_cast<std::size_t>(rank)] + step;
    const BatchRef ref = batch_of(batches_, plan_.sharing, sequence, rank, own_step);
    return drawn_step_time(plan_, rank, own_step, ref.units, seconds_per_unit_);
  }

 private:
  const RunPlan& plan_;
  BatchPlan batches_;
  DispenserPosition start_;
  const double seconds_per_unit_;
};

std::vector<RunSummary::CurvePoint> curve_of(const RunPlan& plan, std::span<const RankReport> reports) {
  const std::uint64_t width = std::max<std::uint64_t>(1, plan.total_batches / kCurvePoints);
  std::map<std::uint64_t, LossBin> bins;
  for (const RankReport& report : reports) {
    for (const LossBin& part : report.losses) {
      const auto [place, first] = bins.try_emplace(part.batches / width, part);
      if (first) continue;
      LossBin& bin = place->second;
      bin.seconds = std::min(bin.seconds, part.seconds);
      bin.batches = std::max(bin.batches, part.batches);
      bin.sum += part.sum;
      bin.count += part.count;
    }
  }
  std::vector<RunSummary::CurvePoint> curve;
  for (const auto& [position, bin] : bins) {
    curve.push_back({bin.seconds, bin.batches, bin.sum / static_cast<double>(bin.count)});
  }
  // So many batches had been applied at the latest when a rank began with more of them.
  for (std::size_t i = curve.size(); i-- > 1;) curve[i - 1].seconds = std::min(curve[i - 1].seconds, curve[i].seconds);
  return curve;
}

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

}  // namespace

RunSummary summarize(const RunPlan& plan, std::span<const RankReport> reports, const Checkpoint* resume) {
  const RoundTotals& rounds = *reports[0].totals;
  RunSummary s{.algorithm = plan.options.algorithm,
               .seed = plan.options.seed,
               .ranks = plan.options.ranks,
               .simulated = plan.options.simulated,
               .network = plan.options.network};
  double waited = 0, computed = 0, compute_share = 0, units = 0;
  std::vector<double> middles;
  std::vector<RankOrdering> orderings;
  std::set<std::size_t> reported;
  s.replicas_identical = true;
  for (const RankReport& report : reports) {
    s.wall_seconds = std::max(s.wall_seconds, report.seconds);
    s.replicas_identical = s.replicas_identical && report.identical;
    s.deposits.made += report.made;
    reported.insert(static_cast<std::size_t>(report.rank));
    s.lost_records += report.lost_records;
    if (s.why_lost.empty()) s.why_lost = report.why_lost;
    waited += report.waited;
    computed += report.computed;
    compute_share += report.compute_share;
    units += static_cast<double>(report.units);
    s.sent.add(report.sent);
    middles.push_back(report.step_p50);
    s.step_p99 = std::max(s.step_p99, report.step_p99);
    if (report.ordering) orderings.push_back(*report.ordering);
    s.lines.resize(std::max(s.lines.size(), report.lines.size()));
    for (std::size_t dimension = 0; dimension < report.lines.size(); ++dimension) {
      s.lines[dimension].push_back(report.lines[dimension]);
    }
    if (report.apart) s.apart.push_back(*report.apart);
  }
  s.step_p50 = quantile(middles, 0.5);
  if (!orderings.empty()) {
    s.ordering = ordering_figures(orderings);
    if (plan.recipe.cores.any()) s.ordering->cores = plan.recipe.cores;
  }
  const double ranks = s.ranks;
  const auto applied = static_cast<double>(rounds.batches);
  s.throughput = ratio(applied, s.wall_seconds);
  s.real_compute_share = compute_share / ranks;
  s.wait_share = ratio(waited, ranks * s.wall_seconds);
  const auto made = static_cast<double>(s.deposits.made);
  s.messages_per_step = ratio(static_cast<double>(s.sent.messages), made);
  s.bytes_per_step = ratio(static_cast<double>(s.sent.bytes), made);
  s.rounds = rounds.rounds;
  s.rounds_per_batch = ratio(static_cast<double>(rounds.rounds) * ranks, applied);
  s.staleness_mean = rounds.staleness_mean;
  s.staleness_max = rounds.staleness_max;
  s.staleness_histogram = rounds.staleness_histogram;
  s.fresh_share = ratio(static_cast<double>(rounds.fresh), static_cast<double>(rounds.fresh + rounds.stale));
  s.deposits.applied = rounds.batches;
  s.deposits.dropped = rounds.dropped;
  s.deposits.passed_over = rounds.passed_over;
  s.deposits.lost = static_cast<std::uint64_t>(std::max<std::int64_t>(0, rounds.lost_deposits));
  s.deposits.kept = rounds.kept_deposits;
  s.lost_seconds = rounds.lost_seconds;
  s.hosts = rounds.hosts;
  s.ledger = rounds.ledger;
  s.members = rounds.members;
  if (s.members) {  // of members that are gone what is applied is known
    for (std::size_t number = 0; number < s.members->batches.size(); ++number) {
      if (!reported.contains(number)) s.deposits.made += s.members->batches[number];
    }
  }
  s.curve = curve_of(plan, reports);
  if (const auto& score = reports[0].test) {
    s.loss = score->loss;
    s.accuracy = score->accuracy;
    s.top5 = score->top5;
  }
  if (const auto& score = reports[0].training) {
    s.train_loss = score->loss;
    s.train_accuracy = score->accuracy;
    s.train_top5 = score->top5;
  }
  s.final_model = plan.options.final_model;
  s.final_batches = reports[0].final_batches;
  for (const EvaluationPoint& point : reports[0].evaluations) {
    s.evaluations.push_back({.seconds = point.seconds,
                             .batches = point.batches,
                             .of = point.average ? "average" : "replica",
                             .loss = point.test.loss,
                             .accuracy = point.test.accuracy,
                             .top5 = point.test.top5,
                             .train_loss = point.training.loss,
                             .train_accuracy = point.training.accuracy,
                             .train_top5 = point.training.top5});
  }

  StepTimes times(plan, resume, ratio(computed, units));
  const std::uint64_t left = plan.total_batches - (resume != nullptr ? resume->batches : 0);
  s.ideal_seconds = seconds(ideal_makespan(s.ranks, left, times));
  s.sync_ideal_seconds = seconds(synchronous_makespan(s.ranks, left, times));
  return s;
}

std::vector<GridCounts> line_counts(const GridAllreduce* grid) {
  std::vector<GridCounts> counts;
  for (int dimension = 0; grid != nullptr && dimension < grid->dimensions(); ++dimension) {
    counts.push_back(grid->counts(dimension));
  }
  return counts;
}

RoundTotals totals_of(const Ledger& ledger, Round rounds, std::vector<std::string> hosts) {
  const RankAccount all = ledger.total();
  return {.rounds = rounds,
          .batches = ledger.applied(),
          .dropped = ledger.dropped(),
          .passed_over = ledger.passed_over(),
          .staleness_mean = ledger.staleness_mean(),
          .staleness_max = ledger.staleness_max(),
          .staleness_histogram = ledger.staleness_histogram(),
          .fresh = all.fresh,
          .stale = all.stale,
          .null = all.null,
          .lost_seconds = ledger.lost_seconds(),
          .hosts = std::move(hosts),
          .lost_deposits = ledger.lost_deposits(),
          .kept_deposits = ledger.kept(),
          .ledger = ledger.to_text([](std::uint64_t word) { return Policy::decode(word).to_string(); })};
}

}  // namespace stretto
