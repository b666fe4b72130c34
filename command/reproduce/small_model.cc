#include "command/reproduce/small_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "command/cli/table.h"
#include "command/statistics/statistics.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr int kImages = 8;
constexpr int kLatencies = 125;  // of a message in a step
constexpr int kDrawn = 100;      // of log-normal steps all but one part in so many is drawn
constexpr const char* kLogNormal = "lognormal:";

}  // namespace

TrainOptions small_model(const ReproduceCommand& command, int ranks, double lr) {
  TrainOptions options = base_options(command, "digits");
  options.ranks = ranks;
  options.batch = kImages;
  options.lr = lr;
  options.momentum = 0.9;
  options.data = "labels:3";
  options.simulated = true;
  const Duration latency = from_seconds(seconds(step_of(command)) * command.scale / kLatencies);
  options.network = fmt::format("latency={},bandwidth=10GB/s", to_text(latency));
  options.evaluate_every = static_cast<std::uint64_t>(ranks);
  return options;
}

Duration step_of(const ReproduceCommand& command) {
  return command.pace * kImages;
}

TrainOptions with_lognormal_steps(TrainOptions options, const ReproduceCommand& command) {
  const Duration step = step_of(command);
  options.pace = command.pace / kDrawn;
  options.imbalance = fmt::format("{}mean={},cv=0.42", kLogNormal, to_text(step - step / kDrawn));
  return options;
}

double seconds_of_all_steps(const TrainOptions& options) {
  const int drawn = options.imbalance.starts_with(kLogNormal) ? kDrawn : 1;
  const double step = seconds(options.pace) * options.batch * drawn;
  return step * options.time_scale * static_cast<double>(options.steps);
}

namespace {

struct Point {
  double seconds, value;
};

/// At `x` on the line from (x0, y0) to (x1, y1).
double on_line(double x0, double y0, double x1, double y1, double x) {
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

std::vector<Point> points_of(const RunSummary& run, auto value) {
  std::vector<Point> points;
  for (const auto& point : run.evaluations) points.push_back({point.seconds, value(point)});
  points.push_back({run.wall_seconds, value(run)});
  return points;
}

}  // namespace

double train_loss_at(const RunSummary& run, double seconds) {
  STRETTO_CHECK(run.train_loss.has_value(), "a run of ", run.algorithm, " without a training loss");
  const auto points = points_of(run, [](const auto& at) { return std::optional<double>(at.train_loss).value(); });
  const auto after = std::ranges::find_if(points, [&](const Point& point) { return point.seconds >= seconds; });
  if (after == points.begin()) return points.front().value;
  if (after == points.end()) return points.back().value;
  const Point &left = *(after - 1), &right = *after;
  return on_line(left.seconds, left.value, right.seconds, right.value, seconds);
}

std::optional<double> seconds_to_accuracy(const RunSummary& run, double accuracy) {
  const auto points = points_of(run, [](const auto& at) { return at.accuracy.value_or(0); });
  const auto first = std::ranges::find_if(points, [&](const Point& point) { return point.value >= accuracy; });
  if (first == points.begin()) return points.front().seconds;
  if (first == points.end()) return std::nullopt;
  const Point &left = *(first - 1), &right = *first;
  return on_line(left.value, left.seconds, right.value, right.seconds, accuracy);
}

Interval ratio_of(const std::vector<double>& group, const std::vector<double>& other) {
  STRETTO_CHECK(group.size() == other.size(), group.size(), " runs and ", other.size());
  std::vector<double> logs;
  for (std::size_t run = 0; run < group.size(); ++run) logs.push_back(std::log(group[run] / other[run]));
  const Interval interval = mean_interval(logs);
  return {std::exp(interval.estimate), std::exp(interval.low), std::exp(interval.high)};
}

Judgement judge_claims(const Experiment& finished, const std::string& of_what, std::span<const Claim> claims,
                       std::span<const std::vector<double>> values) {
  Judgement judgement;
  Table table({of_what, "ratio", "95 %", ""});
  for (const Claim& claim : claims) {
    const bool below = claim.kind == Claim::Kind::below;
    const Interval ratio = ratio_of(values[claim.group], values[claim.other]);
    const bool known = values[claim.group].size() > 1;
    const bool holds = !known || (below ? ratio.high < 1 : !(ratio.low > 1));
    judgement.holds = judgement.holds && holds;
    const std::string statement = fmt::format("{} {} {}", finished.groups[claim.group].label,
                                              below ? "below" : "not above", finished.groups[claim.other].label);
    const std::string interval = fmt::format("{} to {}", significant(ratio.low), significant(ratio.high));
    table.add({statement, significant(ratio.estimate), interval,
               !known  ? "one run says nothing"
               : holds ? "pass"
                       : "FAIL"});
    judgement.statements.push_back({fmt::format("{}: {}", of_what, statement), below ? "below 1" : "not above 1",
                                    fmt::format("{} ({})", significant(ratio.estimate), interval), holds});
  }
  judgement.text = table.to_text();
  return judgement;
}

}  // namespace stretto::command
