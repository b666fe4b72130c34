#include "command/reproduce/run_curve.h"

#include <algorithm>
#include <vector>

#include "stretto/base/error.h"

namespace stretto::command {

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

}  // namespace stretto::command
