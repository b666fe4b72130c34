#include "stretto/predict/measured/step_times_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "stretto/base/random.h"

namespace stretto {
namespace {

constexpr std::uint64_t kTurnsStream = 0x7475726e73;
constexpr std::uint64_t kScoresStream = 0x73636f726573;

/// Between −1 and 1, in the order of `times`: how many of them are shorter, less how many are longer, as a share.
/// Equal times have equal scores.
std::vector<double> scores(const std::vector<float>& times, const std::vector<float>& ascending) {
  const auto count = static_cast<double>(times.size());
  std::vector<double> scores;
  scores.reserve(times.size());
  for (const float time : times) {
    const auto [first, last] = std::equal_range(ascending.begin(), ascending.end(), time);
    scores.push_back(static_cast<double>((first - ascending.begin()) - (ascending.end() - last)) / count);
  }
  return scores;
}

/// Of equal times nothing is known, and 0 is said.
double persistence_of(const std::vector<double>& scores) {
  const double all = std::inner_product(scores.begin(), scores.end(), scores.begin(), 0.0);
  if (all == 0) return 0;
  const double next = std::inner_product(scores.begin() + 1, scores.end(), scores.begin(), 0.0);
  const double rho = std::clamp(next / all, -1.0, 1.0);
  return 2 * std::sin(std::numbers::pi * rho / 6);
}

RankTimesModel fit_rank(const StepTimes& measured, std::size_t rank) {
  std::vector<float> times;
  times.reserve(measured.steps());
  for (std::size_t step = 0; step < measured.steps(); ++step) times.push_back(measured.step(step)[rank]);
  RankTimesModel model{.times = times};
  std::ranges::sort(model.times);
  model.persistence = persistence_of(scores(times, model.times));
  return model;
}

/// Which of so many models each rank has.
std::vector<std::size_t> turns(std::size_t models, int ranks, std::uint64_t seed) {
  Random random(seed, kTurnsStream);
  std::vector<std::size_t> order(models), turns;
  std::iota(order.begin(), order.end(), 0);
  while (turns.size() < static_cast<std::size_t>(ranks)) {
    for (std::size_t i = models; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    turns.insert(turns.end(), order.begin(), order.end());
  }
  turns.resize(static_cast<std::size_t>(ranks));
  return turns;
}

float quantile_at(const std::vector<float>& ascending, double normal) {
  const double below = std::erfc(-normal / std::numbers::sqrt2) / 2;
  const auto index = static_cast<std::size_t>(below * static_cast<double>(ascending.size()));
  return ascending[std::min(index, ascending.size() - 1)];
}

}  // namespace

StepTimesModel StepTimesModel::fit(const StepTimes& measured) {
  StepTimesModel model;
  for (int rank = 0; rank < measured.ranks(); ++rank) {
    model.ranks.push_back(fit_rank(measured, static_cast<std::size_t>(rank)));
  }
  return model;
}

StepTimes StepTimesModel::draw(int num_ranks, std::size_t steps, std::uint64_t seed) const {
  const auto width = static_cast<std::size_t>(num_ranks);
  const std::vector<std::size_t> whose = turns(ranks.size(), num_ranks, seed);
  std::vector<float> times(steps * width);
  for (std::size_t rank = 0; rank < width; ++rank) {
    const RankTimesModel& model = ranks[whose[rank]];
    const double kept = model.persistence, fresh = std::sqrt(std::max(0.0, 1 - kept * kept));
    Random random(seed, kScoresStream + rank);
    double score = random.normal();
    for (std::size_t step = 0; step < steps; ++step) {
      times[step * width + rank] = quantile_at(model.times, score);
      score = kept * score + fresh * random.normal();
    }
  }
  return {num_ranks, std::move(times)};
}

}  // namespace stretto
