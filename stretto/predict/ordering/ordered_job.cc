#include "stretto/predict/ordering/ordered_job.h"

#include <algorithm>
#include <cmath>

namespace stretto {

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
