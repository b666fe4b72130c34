#pragma once

#include <span>
#include <utility>
#include <vector>

#include "stretto/base/random.h"

namespace stretto {

/// A distribution of delays in seconds: exponential, or as measured. Immutable.
class DelayDistribution {
 public:
  /// No delay at all.
  DelayDistribution() : DelayDistribution(0, {}) {}
  /// Requires: `mean` ≥ 0.
  static DelayDistribution exponential(double mean) { return {mean, {}}; }
  /// Linear between the order statistics: no draw is longer than the longest sample. Requires: at least one, none
  /// negative.
  static DelayDistribution of_samples(std::vector<double> samples);
  /// `quantiles`: the value below which the share i / (n − 1) lies. Requires: at least one, ascending, none negative.
  static DelayDistribution of_quantiles(std::vector<double> quantiles) { return {0, std::move(quantiles)}; }

  /// The delay below which the share `p` lies. Requires: 0 ≤ p < 1.
  double at(double p) const;
  double draw(Random& random) const { return mean_ == 0 ? 0 : at(random.uniform()); }
  double mean() const { return mean_; }
  /// Empty where it is exponential.
  std::span<const double> quantiles() const { return quantiles_; }

 private:
  DelayDistribution(double mean, std::vector<double> quantiles);

  double mean_ = 0;
  std::vector<double> quantiles_;
};

/// The sum of as many draws of `each` as a Poisson process has events, `expected` of them in the mean.
double compound_poisson(double expected, const DelayDistribution& each, Random& random);

}  // namespace stretto
