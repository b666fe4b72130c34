#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "command/allreduce_peers.h"
#include "command/statistics.h"
#include "command/subcommand.h"

namespace stretto::command {

/// One library's time for one size, in one repetition.
struct AllreduceSample {
  std::string library;
  int ranks = 0;
  int repetition = 0;
  AllreduceTime time;
  double background = 0;  ///< share of the machine that others took just before
};

/// From so much background load on a repetition is marked, and left out where there are quieter ones.
inline constexpr double kLoadedFrom = 0.1;

/// Median and 95 % interval of the microseconds of one library, number of ranks and size.
struct AllreduceFigure {
  Interval microseconds;
  int repetitions = 0;  ///< that count
  int loaded = 0;       ///< repetitions while others loaded the machine
  /// 2 (P − 1)/P · bytes / time, in GB/s: what a ring would move over each link.
  double bus_bandwidth = 0;
};
AllreduceFigure figure_of(std::span<const AllreduceSample> samples, const std::string& library, int ranks,
                          std::uint64_t bytes);

/// Ours: an Allreduce over shared memory.
Result<std::vector<AllreduceTime>> measure_allreduce(int ranks, Duration time, std::span<const std::uint64_t> sizes);

int run_bench_allreduce(const Arguments& arguments);

}  // namespace stretto::command
