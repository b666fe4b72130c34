#include "stretto/papers/ordering/scale/ordered_job.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {

namespace {

/// Of a function that is linear between equally distant values.
double mean_between(std::span<const double> quantiles) {
  if (quantiles.size() == 1) return quantiles.front();
  double sum = -(quantiles.front() + quantiles.back()) / 2;
  for (const double value : quantiles) sum += value;
  return sum / static_cast<double>(quantiles.size() - 1);
}

}  // namespace

DelayDistribution::DelayDistribution(double mean, std::vector<double> quantiles)
    : mean_(quantiles.empty() ? mean : mean_between(quantiles)), quantiles_(std::move(quantiles)) {
  STRETTO_CHECK(mean_ >= 0, "a mean delay of ", mean_);
  STRETTO_CHECK(std::ranges::is_sorted(quantiles_), "quantiles descend");
}

DelayDistribution DelayDistribution::of_samples(std::vector<double> samples) {
  STRETTO_CHECK(!samples.empty(), "no samples");
  std::ranges::sort(samples);
  return of_quantiles(std::move(samples));
}

double DelayDistribution::at(double p) const {
  if (quantiles_.empty()) return -mean_ * std::log(1 - p);
  const double place = p * static_cast<double>(quantiles_.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  if (below + 1 >= quantiles_.size()) return quantiles_.back();
  return quantiles_[below] + (place - static_cast<double>(below)) * (quantiles_[below + 1] - quantiles_[below]);
}

double compound_poisson(double expected, const DelayDistribution& each, Random& random) {
  // Knuth: as many factors as keep the product of uniform numbers above exp(−expected).
  double sum = 0;
  const double limit = std::exp(-expected);
  for (double product = random.uniform(); product > limit; product *= random.uniform()) sum += each.draw(random);
  return sum;
}

double ClusterCosts::transfer(double bytes, int ranks) const {
  const double in_host = std::min(ranks, ranks_per_host);
  const double hosts = std::ceil(static_cast<double>(ranks) / ranks_per_host);
  const double copies = 2 * bytes / copy_bandwidth;
  const double ring = 2 * (in_host - 1) / in_host * bytes / host_bandwidth;
  if (hosts < 2) return copies + ring;
  // The tree is pipelined: each byte goes up and down once, whatever its depth.
  return copies + ring + 2 * bytes / link_bandwidth + host_doubling * std::log2(hosts);
}

double OrderingCosts::control_latency(int ranks) const {
  return control + control_doubling * std::log2(static_cast<double>(ranks));
}

}  // namespace stretto
