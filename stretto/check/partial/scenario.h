#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stretto/check/harness/job_search.h"
#include "stretto/check/harness/simulated_application.h"
#include "stretto/collective/partial_allreduce.h"

namespace stretto {

/// One run of a partial allreduce on a simulated cluster, drawn from a seed.
struct Scenario {
  std::uint64_t seed = 0;
  int ranks = 1;
  std::vector<BucketSpec> buckets;
  PartialOptions options;
  Machines machines;
  bool bucketwise = false;           ///< policy full: deposits are handed over bucket by bucket
  std::vector<std::uint64_t> steps;  ///< per rank: batches it has
  double pass_probability = 0;       ///< a rank drops a batch: it arrives without a deposit
  std::optional<int> passing_rank;   ///< drops all of its batches
  int crashed_rank = -1;             ///< dies in the middle, or −1
  std::uint64_t crash_step = 0;
  bool crashes_with_host = false;  ///< and with it, at the same moment, all ranks of its host

  bool shares_memory() const { return machines.shares_memory(); }
  /// Whether the rank dies.
  bool crashes(int rank) const;
  std::string to_string() const;
};

/// The scenario of `seed` within `limits`. Sizes are drawn log-uniformly, ranks from 1 to 33.
Scenario draw_scenario(std::uint64_t seed, const JobLimits& limits);

}  // namespace stretto
