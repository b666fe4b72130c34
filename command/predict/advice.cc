#include "command/predict/advice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace stretto::command {

Interval gain(const Trial& trial, const Trial& base) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < trial.rates.size(); ++i) ratios.push_back(trial.rates[i] / base.rates[i]);
  return mean_interval(ratios);
}

const Trial& recommended(const std::vector<Trial>& trials) {
  constexpr double kAsFast = 0.99;
  const auto rate = [](const Trial& trial) { return mean(trial.rates); };
  const Trial& fastest = *std::ranges::max_element(trials, {}, rate);
  const Trial* best = &fastest;
  const auto rank = [&](const Trial& trial) {
    const double unseen = std::isnan(trial.unseen) ? std::numeric_limits<double>::infinity() : trial.unseen;
    return std::pair(-unseen, rate(trial));
  };
  for (const Trial& trial : trials) {
    if (gain(trial, fastest).estimate >= kAsFast && rank(trial) > rank(*best)) best = &trial;
  }
  return *best;
}

std::optional<double> crossover(const std::vector<GainAt>& tried) {
  for (std::size_t i = 0; i < tried.size(); ++i) {
    if (tried[i].gain < kWorthwhile) continue;
    if (i == 0) return 0;
    const GainAt &below = tried[i - 1], &above = tried[i];
    return below.skew + (above.skew - below.skew) * (kWorthwhile - below.gain) / (above.gain - below.gain);
  }
  return std::nullopt;
}

}  // namespace stretto::command
