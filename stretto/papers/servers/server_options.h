#pragma once

#include <cstdint>
#include <string>

#include "stretto/train/recipes/options/algorithm_options.h"

namespace stretto {

/// When a parameter server takes gradients into a value, and when it answers with it.
enum class ServerMode {
  sync,    ///< a version of a bucket takes one gradient of every rank, summed in the order of ranks
  async,   ///< each gradient makes a version at once; nobody waits for another rank
  ssp,     ///< stale synchronous parallel: as async, but no rank computes on a value that lacks too old a step
  k_sync,  ///< a version takes the first k gradients that were computed on the one before; later ones are dropped
};

/// Options of a ParameterServer, the same on every rank.
struct ServerOptions {
  ServerMode mode = ServerMode::sync;  ///< when gradients are taken and values handed out
  std::uint64_t staleness = 0;  ///< ssp: s, steps by which a rank may be ahead of the slowest; more waits less often
  int enough = 0;               ///< k_sync: k, gradients that make a version; fewer wait less and drop more
  int servers = 0;              ///< ranks that hold buckets; 0: all. Fewer leave the others' links free
  /// The servers are the highest ranks and push no gradients; otherwise they are the lowest, and push as well.
  bool dedicated = false;

  /// "k-sync of 3 gradients, 2 servers".
  std::string to_string() const;
  /// Ranks that hold buckets.
  int num_servers(int ranks) const { return servers == 0 ? ranks : servers; }
  /// Ranks that push gradients: 0 … num_workers() − 1.
  int num_workers(int ranks) const { return dedicated ? ranks - num_servers(ranks) : ranks; }
  /// The rank that holds a bucket: one after the other in turns.
  int server_of(int bucket, int ranks) const {
    return (dedicated ? num_workers(ranks) : 0) + bucket % num_servers(ranks);
  }
};

/// Throws UsageError where the options do not fit each other or the number of ranks: more servers than ranks, servers
/// without workers, k below 1 or above the number of workers.
void check_server_options(const ServerOptions& options, int ranks);

/// Servers as the argument behind an algorithm's name and its options say: "3" of ssp, "6" of k-sync, `servers`. Throws
/// UsageError for an argument that is no number, and for a number of servers that is none.
ServerOptions server_options(ServerMode mode, const std::string& argument, const AlgorithmOptions& said);
/// RecipeInfo::without_batches.
std::string dedicated_servers(const AlgorithmOptions& said);

}  // namespace stretto
