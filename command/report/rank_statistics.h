#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "command/report/recorded_run.h"

namespace stretto::command {

/// How long the steps of a rank took, without what it waited for others, in seconds, and how stale its gradients were.
/// NaN where there are too few steps.
struct RankStatistics {
  std::size_t steps = 0;
  double mean = 0, deviation = 0, least = 0, most = 0;
  double computed = 0, delayed = 0, waited = 0;  ///< sums
  std::size_t fresh = 0, stale = 0;              ///< batches, as far as the trace says when they were taken
};

RankStatistics statistics_of(std::span<const RecordedStep> steps);

/// Bars of equal width. The last one counts all that is longer, too.
struct Bars {
  double from = 0;
  double width = 0;
  std::size_t count = 0;
  bool open = false;  ///< the last bar has something beyond its end
};

/// From the shortest to the longest step of all these runs, so that they can be compared; where a few are more than
/// three times as long as 99 % of all, to half as long again as these.
Bars bars_of(std::span<const RecordedRun> runs);
/// How many steps each bar has.
std::vector<std::uint64_t> histogram(std::span<const RecordedStep> steps, const Bars& bars);
/// Entry s: batches of staleness s, over all ranks. Empty where none is known.
std::vector<std::uint64_t> staleness_histogram(const RecordedRun& run);

}  // namespace stretto::command
