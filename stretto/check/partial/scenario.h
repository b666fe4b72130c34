#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/check/job_search.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/simulate/cluster.h"

namespace stretto {

/// One run of a partial allreduce on a simulated cluster, drawn from a seed.
struct Scenario {
  std::uint64_t seed = 0;
  int ranks = 1;
  std::vector<BucketSpec> buckets;
  PartialOptions options;
  NetworkOptions network;
  Over over = Over::messages;        ///< options.seats says how many meet
  Members members{1};                ///< over boards: the hosts that these are on
  bool bucketwise = false;           ///< policy full: deposits are handed over bucket by bucket
  std::vector<std::uint64_t> steps;  ///< per rank: batches it has
  std::vector<double> slowness;      ///< per rank: multiplies its computing time
  Duration compute{0};               ///< mean computing time of a batch
  double spread = 0;                 ///< computing times are uniform in mean · [1 − spread, 1 + spread]
  double stall_probability = 0;      ///< a step takes ten to fifty times as long
  double pass_probability = 0;       ///< a rank drops a batch: it arrives without a deposit
  std::optional<int> passing_rank;   ///< drops all of its batches
  double stop_probability = 0;       ///< engine and application of a rank stand still for a while
  struct SlowLink {
    int src, dst;
    double factor;
  };
  std::vector<SlowLink> slow_links;
  int crashed_rank = -1;  ///< dies in the middle, or −1
  std::uint64_t crash_step = 0;

  /// The ranks share a host's memory.
  bool shares_memory() const { return over != Over::messages; }
  std::string to_string() const;
};

/// The scenario of `seed` within `limits`. Sizes are drawn log-uniformly, ranks from 1 to 33.
Scenario draw_scenario(std::uint64_t seed, const JobLimits& limits);

}  // namespace stretto
