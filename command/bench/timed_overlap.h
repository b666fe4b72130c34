#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "command/machine/namespace_hosts.h"
#include "command/statistics/comparison.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

/// Steps of computation and communication. Rank r, counted from 0, computes for work + r · skew a step (it sleeps, like
/// a rank whose accelerator computes), a bucket's share at a time.
struct OverlapExperiment {
  int steps = 20;
  int buckets = 8;
  Duration work = std::chrono::milliseconds(20);
  Duration skew = std::chrono::milliseconds(1);
  std::shared_ptr<const NamespaceHosts> hosts = {};  ///< of the ranks; null: all are on this one
};

/// Milliseconds of a step on the slowest rank, as in a line of a peer program.
struct OverlapTimes {
  double compute = 0;     ///< computing alone
  double collective = 0;  ///< communicating alone, as in `blocking`
  double at_once = 0;     ///< the same as in `overlapped`: all buckets handed over one by one, without a pause
  double blocking = 0;    ///< computing and then communicating
  double overlapped = 0;  ///< each bucket handed over as soon as it is computed
};
inline constexpr std::size_t kOverlapValues = 5;

/// Ours: one partial allreduce of policy full, whose buckets are handed over together, or one by one while a helper
/// thread reduces them. The values of a reading are OverlapTimes in their order. Errc as report_of_rank_0().
Result<std::vector<Reading>> measure_overlap(int ranks, const OverlapExperiment& experiment,
                                             std::span<const std::uint64_t> sizes);

/// The part of the shorter of computation and collective that disappeared behind the other: 1 where a step takes as
/// long as the longer of them, 0 where it takes as long as both one after the other, less where it takes even longer.
double hidden_share(double compute, double collective, double both);

}  // namespace stretto::command
