#pragma once

#include <optional>
#include <vector>

#include "command/predict/trial.h"
#include "command/statistics/statistics.h"

namespace stretto::command {

/// Of the mean over replicas of rates[i] / base.rates[i]. Requires: the same replicas.
Interval gain(const Trial& trial, const Trial& base);

/// The trial to recommend: of those whose gain over the fastest is not below 0.99 the one that leaves the fewest
/// batches unseen (Trial::unseen), then the fastest. One of which that is not known comes after all of which it is.
/// `trials` are not empty.
const Trial& recommended(const std::vector<Trial>& trials);

/// From so much gain on it is worth to leave synchronous training.
inline constexpr double kWorthwhile = 1.05;

/// A skew, in seconds, and what a choice gains there over another.
struct GainAt {
  double skew = 0;
  double gain = 0;
};

/// The skew from which on the gain is worthwhile, linear between those tried; none where it never is, 0 where it always
/// is. `tried`: by ascending skew.
std::optional<double> crossover(const std::vector<GainAt>& tried);

}  // namespace stretto::command
