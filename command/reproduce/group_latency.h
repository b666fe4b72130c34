#pragma once

#include <cstdint>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

/// Ranks that come one after the other to a sum of models, or gradients, that all have left on a board: of a group by
/// turns of each size, and of all ranks under solo.
struct GroupLatencyExperiment {
  int ranks = 8;
  std::vector<int> group_sizes = {2, 4};
  std::uint64_t bytes = 4 << 20;
  int rounds = 60;
  Duration skew = std::chrono::milliseconds(10);  ///< rank r comes r times so late
};

/// Seconds from the arrival of the rank that comes first to its result, a value a round.
struct GroupLatencies {
  std::vector<double> solo;                 ///< over all ranks
  std::vector<std::vector<double>> groups;  ///< by GroupLatencyExperiment::group_sizes
};

/// Runs it in processes of its own. Errc as report_of_rank_0(); a rank fails when a sum came out wrong. Throws
/// Interrupted.
Result<GroupLatencies> measure_group_latency(const GroupLatencyExperiment& experiment);

/// Of each round: the latency of the groups of this size over that of solo, over S/P. 1: it grows with the bytes alone.
std::vector<double> over_share(const GroupLatencyExperiment& experiment, const GroupLatencies& measured,
                               std::size_t group);

}  // namespace stretto::command
