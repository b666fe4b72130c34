#pragma once

#include <cstdint>
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

/// Tensors of a step that become ready together and are reduced as one.
struct ReadyGroup {
  double computed = 1;  ///< the share of the step's computation after which they are ready
  double bytes = 0;
};

/// The time of a transfer between all ranks: LogGP with a ring inside each host and a tree over the hosts.
struct ClusterCosts {
  int ranks_per_host = 6;
  double host_bandwidth = 0;  ///< bytes per second of a rank, to its neighbour in the host
  double link_bandwidth = 0;  ///< bytes per second of a host, to others
  double copy_bandwidth = 0;  ///< bytes per second into the fused buffer, and back
  double host_doubling = 0;   ///< seconds for each doubling of the number of hosts

  /// An allreduce of so many bytes, once all ranks have begun it, in seconds.
  double transfer(double bytes, int ranks) const;
};

/// A step of training on each of `ranks` ranks. Times in seconds.
struct OrderedJob {
  int ranks = 6;
  int cores = 7;          ///< of a rank, for its threads alone
  int input_threads = 6;  ///< of the input pipeline; beside them a thread that schedules, and a background thread
  double compute = 0;     ///< from a step's begin until all is ready, undisturbed
  double input = 0;       ///< how long the input pipeline works in a step; 0: there is none
  double cycle = 5e-3;    ///< of the background thread
  std::vector<ReadyGroup> groups = {{}};  ///< ascending by `computed`; the last one is ready when all is computed
  ClusterCosts cluster;

  /// With the background thread.
  int threads() const { return input_threads + 2; }
};

/// The costs of threads, messages and bookkeeping, which a calibration measures or fits. Times in seconds.
struct OrderingCosts {
  DelayDistribution oversleep_free;  ///< of a thread that wakes while a core is free
  DelayDistribution oversleep_busy;  ///< while the input pipeline keeps the cores busy
  double control = 0;                ///< a: of a small allreduce, from the last arrival on
  double control_doubling = 0;       ///< b: for each doubling of the number of ranks
  double look = 0;                   ///< processor time of a cycle, without what it spins
  double spin_stretch = 1;     ///< what a spinning thread takes from the others, over its equal share of the cores
  double preemption_rate = 0;  ///< λ: pauses of the scheduling thread, per second beside a spinning thread
  double pause_rate = 0;       ///< pauses of the computation, per second of it, whatever the threads of the rank do
  DelayDistribution pause;     ///< how long each of them is
  double bookkeeping = 0;      ///< of TOPO, for a buffer, from full to issued

  /// s(P) = a + b · log2(P).
  double control_latency(int ranks) const;
};

}  // namespace stretto
