#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/machine/cores.h"
#include "stretto/ordering/options/ordering_statistics.h"
#include "stretto/train/recipes/options/core_sets.h"

namespace stretto {

/// The cost of ordering on one rank, and the rank's other processor time.
struct RankOrdering {
  OrderingStatistics statistics;
  std::string clock;        ///< the name of that by which its arrivals are told
  std::uint64_t steps = 0;  ///< of its own
  double step_p50 = 0;      ///< seconds that one of them takes, the middle one
  double step_p99 = 0;      ///< likewise, of 1 in 100 at least
  Duration application{0};  ///< processor time of the thread that computes, in these steps
  Duration input{0};        ///< of InputPipeline
  CoreSharing sharing;      ///< of the rank's host, what was throttled during the run; nothing in virtual time
};

/// Measures the processor time of a rank's thread, and the throttling of its host, since the meter was made. One
/// thread.
class OrderingMeter {
 public:
  /// `real`: its times are the machine's, not virtual ones.
  explicit OrderingMeter(bool real);
  /// Fills in what the meter has counted. `ahead`: RankContext::clock_offset(); where it is known, times of the rank
  /// become those of the clock of rank 0's host.
  void read(RankOrdering& rank, std::optional<Duration> ahead) const;

 private:
  const bool real_;
  const Duration used_before_;
  const CoreSharing sharing_before_;
};

/// The same for processes whose SteadyClock shows the same: those of one kernel since it was started.
std::string name_of_this_clock();

/// The figures of a run that a person reads (docs/ordering.md); per step of the rank, in seconds, where they are times.
struct OrderingFigures {
  struct Rank {
    double step_p50 = 0, step_p99 = 0;  ///< RankOrdering's
    double negotiation = 0;             ///< from handed over to begun, mean of a tensor
    double negotiation_share = 0;       ///< of a step: negotiation ÷ RankOrdering::step_p50
    std::optional<double> stall;        ///< mean_stalls(); nothing where their times are told by several clocks
    std::optional<double> stall_share;  ///< of a step, likewise
    double control_messages = 0, control_bytes = 0, cycles = 0, buffers = 0;
    double fill = 0;  ///< bytes of a buffer, mean
    double application_cpu = 0, input_cpu = 0, background_cpu = 0, spin_cpu = 0;
    double cycle_p50 = 0, cycle_p99 = 0;  ///< of a cycle, its sleep included; 0 without cycles
    double oversleep_p50 = 0, oversleep_p90 = 0, oversleep_p99 = 0, oversleep_max = 0;
    /// The kernel's slice on the rank's host, and what the quota of its control group has stopped during the run,
    /// beside the oversleeps that they explain; nothing where the kernel does not say it, and in virtual time.
    std::optional<double> slice_seconds, throttled_periods, throttled_seconds;
    std::uint64_t deviations = 0;    ///< steps of the whole run in which some rank has left the plan
    std::uint64_t void_buffers = 0;  ///< thrown away in the whole run, since the graph has changed
  };
  std::vector<Rank> ranks;
  /// Means over the ranks; oversleeps, cycles and void buffers of all, deviations, slice and throttling the most of
  /// one, steps as RunSummary has them.
  Rank all;
  std::optional<CoreSets> cores;  ///< scp: on which the threads of a rank run; for a summary to set
  double skew_p50 = 0;            ///< of a sync: the last rank's arrival minus the first one's; 0 without syncs
  double skew_p99 = 0;            ///< likewise
  std::vector<double> cascade;    ///< autocorrelation of the arrivals minus the ranks' mean, at lags 1 … 8
};

/// `ranks`: all of the job. Arrivals and stalls are compared where all ranks have one clock.
OrderingFigures ordering_figures(std::span<const RankOrdering> ranks);

}  // namespace stretto
