#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stretto/membership/job.h"
#include "stretto/simulate/virtual_ranks.h"
#include "stretto/train/simulated/simulated_members.h"

namespace stretto {

// Training in virtual time. All ranks of a job are threads of this process (VirtualRanks), and run what they would run
// in processes of their own: the trainer, the recipe, its collectives and the engine. What is real, and what a model:
//
//   gradients, sums, weights    real: they depend on the order of messages, which depends on the seed alone
//   which round takes what      real: the protocol, over the simulated network
//   time of a step              model: pace × units of work × factor drawn + delay drawn; computing takes what it
//   takes,
//                               on several cores at once, and virtual time does not pass meanwhile
//   time of a message           model: latency, and the bandwidth of a network card that a rank's messages share
//   everything else             takes no time: to sum, to apply a result, to wake up a thread
//
// Ranks share no memory: each is a host of a network.

/// A job for run_simulated().
struct SimulatedJob {
  int ranks = 1;
  NetworkOptions network;
  std::uint64_t seed = 1;   ///< of what the network draws
  int compute_threads = 1;  ///< VirtualRanks; no result depends on it
  /// Where members change: `ranks` of them at a time, at most. None: they do not.
  std::optional<SimulatedMembersOptions> members = {};
};

/// The function of one simulated rank, called with its context, as in a real job, and with its place on the virtual
/// clock. Returns 0; anything else tells the other ranks that this one is lost. Lets SimulatedLoss and Left pass.
using SimulatedMain = std::function<int(RankContext&, VirtualRank&)>;

/// Runs `main` as all ranks of a job in this process, and returns what each has handed to RankContext::report(); where
/// members change, those that were there at the end, by their places.
/// Rethrows what a rank throws, the first by number. Throws Failure (Errc::unavailable) where there is no thread for
/// each.
std::vector<std::string> run_simulated(const SimulatedJob& job, const SimulatedMain& main);

}  // namespace stretto
