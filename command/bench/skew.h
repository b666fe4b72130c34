#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "command/bench/peers.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/collective/protocol/policy.h"

namespace stretto::command {

/// The microbenchmark of eager-SGD, Fig. 8: each round rank r, counted from 1, sleeps r times `skew` and then calls
/// the collective. An untimed barrier stands before each round.
struct SkewExperiment {
  int ranks = 32;
  int rounds = 64;
  std::uint64_t bytes = 64;
  Policy policy;
  int seats = 0;  ///< PartialOptions::seats
  /// Contributions are copied from the caller's memory and results into it, within the measured time. Otherwise
  /// contributions are made in the collective's memory, and results are read there.
  bool copies = false;
  Duration skew = std::chrono::milliseconds(1);
  std::uint64_t seed = 1;
  std::shared_ptr<const NamespaceHosts> hosts = {};  ///< of the ranks; null: all are on this one
};

struct SkewResult {
  double mean_ms = 0;   ///< latency of the call, over ranks and rounds
  double ideal_ms = 0;  ///< time of waiting alone, for the initiators that were drawn
  double arrived = 0;   ///< mean number of ranks a round that had arrived (the papers call them active)
  double fresh = 0;     ///< mean number of ranks a round that brought a fresh contribution
  double cores = 0;     ///< CPU time of all ranks over time; filling the buffers is not in it
};

/// Runs it in processes of its own, with the partial allreduce. Errc as reports_of_ranks(); Errc::aborted also when a
/// sum came out wrong. Throws Interrupted.
Result<SkewResult> measure_skew(const SkewExperiment& experiment);

/// The same with a peer's allreduce, for each of `sizes`; `bytes` and `policy` of the experiment mean nothing, for it
/// always waits for all. Errc as measure_peer().
Result<std::vector<SkewResult>> measure_peer_skew(const Peer& peer, const SkewExperiment& experiment,
                                                  std::span<const std::uint64_t> sizes);

/// The name of our library in tables, used as the experiment says: "stretto", "stretto-messages", "stretto-plain".
std::string name_of_ours(const SkewExperiment& experiment);

/// The words that an activation begins with: "solo", "quorum:".
std::vector<std::string> activation_names();
/// A list as in --activations. Throws UsageError.
std::vector<Policy> parse_activations(const std::string& list, int ranks);

/// Mean time in ms that ranks which come at 1, 2, … `ranks` times `skew` wait until the round can start.
/// `initiator`: the rank drawn, for policy majority. NaN for policy deadline.
double ideal_wait_ms(const Policy& policy, int ranks, Duration skew, int initiator);

}  // namespace stretto::command
