#include "stretto/predict/drift/drift.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {

void StepWindow::add(int rank, std::span<const float> steps) {
  auto& lane = steps_[static_cast<std::size_t>(rank)];
  lane.insert(lane.end(), steps.begin(), steps.end());
}

void StepWindow::clear() {
  for (auto& lane : steps_) lane.clear();
}

std::size_t StepWindow::total() const {
  std::size_t sum = 0;
  for (const auto& lane : steps_) sum += lane.size();
  return sum;
}

std::size_t StepWindow::fewest() const {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const auto& lane : steps_) least = std::min(least, lane.size());
  return least;
}

StepTimes StepWindow::times(std::size_t most) const {
  STRETTO_CHECK(fewest() > 0, "a rank has made no step");
  std::size_t rows = 0;
  for (const auto& lane : steps_) rows = std::max(rows, lane.size());
  rows = std::min(rows, most);
  std::vector<float> times;
  times.reserve(rows * steps_.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (const auto& lane : steps_) times.push_back(lane[row % lane.size()]);
  }
  return {static_cast<int>(steps_.size()), std::move(times)};
}

DriftDetector::Turn DriftDetector::take(double rate) {
  constexpr int kInARow = 2;
  const double off = rate - predicted_, limit = kLeft * predicted_;
  const auto count = [](int& in_a_row, bool one_more) { in_a_row = one_more ? in_a_row + 1 : 0; };
  count(low_, off < -limit);
  count(high_, off > limit);
  if (!drifting_) return low_ == kInARow || high_ == kInARow ? leave(rate) : Turn::none;
  count(near_, std::abs(off) <= kBack * predicted_);
  count(away_, std::abs(rate - level_) > kLeft * level_);
  if (near_ == kInARow) return come_back();
  if (away_ < kInARow) return Turn::none;
  return low_ >= kInARow || high_ >= kInARow ? leave(rate) : come_back();
}

DriftDetector::Turn DriftDetector::leave(double rate) {
  drifting_ = true;
  level_ = rate;
  forget();
  return Turn::left;
}

DriftDetector::Turn DriftDetector::come_back() {
  drifting_ = false;
  forget();
  return Turn::back;
}

namespace {

constexpr double kHalf = 0.5;
constexpr double kClose = 0.002;  // of a step; simulations are not closer to runs

/// The mean step of each rank.
std::vector<double> means(const StepTimes& times) {
  std::vector<double> sums(static_cast<std::size_t>(times.ranks()));
  for (std::size_t i = 0; i < times.steps(); ++i) {
    std::size_t rank = 0;
    for (const float time : times.step(i)) sums[rank++] += static_cast<double>(time);
  }
  for (double& sum : sums) sum /= static_cast<double>(times.steps());
  return sums;
}

/// now / before, where a time that was below the clock's grain counts as a nanosecond.
double ratio_of(double now, double before) {
  constexpr double kGrain = 1e-9;
  return std::max(now, kGrain) / std::max(before, kGrain);
}

/// Those of `now`, but one rank's as they were `before`, again and again if these are fewer.
StepTimes with_rank_as_before(const StepTimes& now, const StepTimes& before, int rank) {
  std::vector<float> times;
  for (std::size_t i = 0; i < now.steps(); ++i) {
    times.insert(times.end(), now.step(i).begin(), now.step(i).end());
    times[i * static_cast<std::size_t>(now.ranks()) + static_cast<std::size_t>(rank)] =
        before.step(i % before.steps())[static_cast<std::size_t>(rank)];
  }
  return {now.ranks(), std::move(times)};
}

/// The rank whose steps have changed most, in the direction that is named, if the others' have not done likewise.
std::optional<int> outlier(const std::vector<double>& logs, bool longer) {
  if (logs.size() < 2) return std::nullopt;
  const auto most = longer ? std::ranges::max_element(logs) : std::ranges::min_element(logs);
  std::vector<double> others(logs.begin(), most);
  others.insert(others.end(), most + 1, logs.end());
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  if (std::abs(*middle) >= kHalf * std::abs(*most)) return std::nullopt;
  return static_cast<int>(most - logs.begin());
}

}  // namespace

const char* DriftCause::name() const {
  switch (kind) {
    case Kind::compute: return "compute";
    case Kind::rank: return "rank";
    case Kind::rounds: return "rounds";
  }
  return "";
}

RunInputs inputs_of(const StepTimes& computed, double rate, PredictRate predict) {
  RunInputs inputs{computed};
  // What is added to all steps makes each longer by as much: exactly where all wait for all, nearly elsewhere.
  constexpr int kCorrections = 3;
  const double ranks = computed.ranks();
  for (int i = 0; i < kCorrections; ++i) {
    const double missing = ranks / rate - ranks / predict(inputs.occupied());
    inputs.round_cost = std::max(0.0, inputs.round_cost + missing);
    if (std::abs(missing) * rate <= kClose * ranks) break;
  }
  return inputs;
}

DriftCause cause_of_drift(const RunInputs& before, const StepTimes& now, double predicted, double measured,
                          PredictRate predict) {
  STRETTO_CHECK(before.computed.ranks() == now.ranks(), "the ranks of one run");
  DriftCause cause;
  const double whole = std::log(measured / predicted);
  const auto way = [&](const StepTimes& computed) {
    return std::log(predict(computed.longer_by(before.round_cost)) / predicted);
  };
  const double by_computing = way(now);
  if (by_computing / whole < kHalf) {
    cause.predicted_round = before.round_cost;
    cause.measured_round = inputs_of(now, measured, predict).round_cost;
    cause.ratio = ratio_of(cause.measured_round, cause.predicted_round);
    return cause;
  }
  cause.kind = DriftCause::Kind::compute;
  const double mean = before.computed.mean(), skew = before.computed.skew();
  cause.ratio = ratio_of(now.mean(), mean);
  cause.skew_ratio = ratio_of(now.skew(), skew);
  cause.apart = std::abs(now.skew() - skew) > std::abs(now.mean() - mean);

  const std::vector<double> then = means(before.computed);
  std::vector<double> ratios = means(now), logs;
  for (std::size_t rank = 0; rank < ratios.size(); ++rank) {
    ratios[rank] = ratio_of(ratios[rank], then[rank]);
    logs.push_back(std::log(ratios[rank]));
  }
  const auto one = outlier(logs, measured < predicted);
  if (!one) return cause;
  if (way(with_rank_as_before(now, before.computed, *one)) / by_computing > kHalf) return cause;
  cause.kind = DriftCause::Kind::rank;
  cause.rank = *one;
  cause.ratio = ratios[static_cast<std::size_t>(*one)];
  return cause;
}

}  // namespace stretto
