#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stretto/check/harness/simulated_application.h"
#include "stretto/kernel/bucket.h"
#include "stretto/papers/neighbours/graphs.h"

namespace stretto {

/// A job in which ranks average with neighbours, drawn from a seed.
struct NeighbourJob {
  enum class Kind { push_sum, mean, gossip };

  /// `ranks`: 0: drawn; 1 is raised to 2. An odd number has no bipartite graph.
  static NeighbourJob draw(std::uint64_t seed, bool push_sum, int ranks);

  Links links(int rank, Round round) const;
  /// Kind::mean, Kind::gossip: what the models of the in-neighbours count.
  std::vector<Share> shares(int rank, Round round) const;
  std::string to_string() const;

  std::uint64_t seed = 0;
  Kind kind = Kind::push_sum;
  int ranks = 2;
  std::string graph_words;
  std::optional<PushGraph> push;    // Kind::push_sum
  std::optional<MixingGraph> mean;  // Kind::mean
  bool average_first = false;       // Kind::mean: averages the models that its gradients are computed on
  Round overlap = 0;
  Round block = 0;
  std::vector<BucketSpec> buckets;
  std::vector<int> batches;  // of each rank
  int crashed_rank = -1;     // none
  int crash_batch = 0;
  Machines machines;
};

}  // namespace stretto
