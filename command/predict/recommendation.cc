#include "command/predict/recommendation.h"

#include <fmt/format.h>

#include <algorithm>

#include "command/cli/table.h"
#include "command/predict/quorum_bound.h"

namespace stretto::command {

namespace {

constexpr double kSkews[] = {0, 0.125, 0.25, 0.5, 1, 2};  // of that of the job

/// What the winner gains where ranks differ less than those of the job, and more.
std::vector<GainAt> gains_at(const Trial& winner, const Trial& sync, const std::vector<StepTimes>& replicas,
                             const SimulatedHosts& hosts, std::uint64_t seed) {
  std::vector<GainAt> gains;
  for (const double factor : kSkews) {
    std::vector<StepTimes> scaled;
    std::vector<double> skews;
    for (const StepTimes& times : replicas) {
      scaled.push_back(times.with_skew(factor));
      skews.push_back(scaled.back().skew());
    }
    std::vector<Trial> both = {winner, sync};
    if (factor != 1) both = try_out({winner.choice, sync.choice}, scaled, hosts, seed);
    gains.push_back({mean(skews), gain(both[0], both[1]).estimate});
  }
  return gains;
}

std::string in_words(const Trial& winner, const Trial& sync, double skew, const std::vector<GainAt>& gains) {
  const double gained = gain(winner, sync).estimate;
  const auto at = crossover(gains);
  if (winner.choice.algorithm == "sync") return "Stay synchronous: nothing that was tried is faster.";
  if (!at) {
    return fmt::format("Stay synchronous: up to {} of skew, twice that of this job, {} gains less than 5 %.",
                       in_milliseconds(gains.back().skew), winner.choice.name());
  }
  if (*at == 0) {
    return fmt::format("{} gains {:.2f}x at the {} of skew that this job has, and 5 % or more even without any.",
                       winner.choice.name(), gained, in_milliseconds(skew));
  }
  return fmt::format("Below {} of skew stay synchronous; above it {} is worthwhile: {:.2f}x at the {} of this job.",
                     in_milliseconds(*at), winner.choice.name(), gained, in_milliseconds(skew));
}

/// What a quorum may cost in steps; empty where there is nothing to say.
std::string price_of(const Trial& winner, int ranks) {
  const double bound = quorum_bound(winner, ranks);
  if (!(bound > 0)) return {};
  return fmt::format(
      " It may need more steps, by a factor in proportion to {} at most: √(τ (P − Q)) / P with τ = {} and Q = {}, by "
      "Theorem 6.3 of the eager-SGD paper.",
      significant(bound), winner.staleness_max, quorum_of(winner.choice, ranks));
}

}  // namespace

Recommendation recommend(std::vector<Choice> choices, const std::vector<StepTimes>& replicas, double skew,
                         const SimulatedHosts& hosts, std::uint64_t seed) {
  std::erase_if(choices, [](const Choice& choice) { return choice.algorithm == "sync"; });
  choices.insert(choices.begin(), {.algorithm = "sync"});
  Recommendation advice{.trials = try_out(choices, replicas, hosts, seed)};
  advice.sync = advice.trials.front();
  advice.winner = recommended(advice.trials);
  std::ranges::sort(advice.trials, std::ranges::greater(), [](const Trial& trial) { return mean(trial.rates); });
  if (advice.winner.choice.algorithm != "sync") {
    advice.gains = gains_at(advice.winner, advice.sync, replicas, hosts, seed);
  }
  advice.verdict =
      in_words(advice.winner, advice.sync, skew, advice.gains) + price_of(advice.winner, replicas.front().ranks());
  return advice;
}

std::string in_milliseconds(double seconds) {
  return fmt::format("{} ms", significant(1e3 * seconds));
}

}  // namespace stretto::command
