#pragma once

#include <cstdint>
#include <string>

#include "stretto/papers/neighbours/links.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// Whom each rank sends a part of its mass in which round: push-sum (Assran et al., "Stochastic Gradient Push for
/// Distributed Deep Learning", ICML 2019, section 3 and appendix A). A function of the round alone. Fixed after
/// construction.
///
/// In round r rank p sends to p + h[(r + i) mod n], i = 0, 1, …, `neighbours` of them, as far as they differ. The
/// lengths h of the hops are, for P ranks:
/// - `exponential`: 1, 2, 4, …, below P;
/// - `bipartite`: 1, 3, 5, 9, 17, …, 2^i + 1, below P: always from an even to an odd rank, or back. Needs an even P.
///
/// With K out-neighbours each gets 1/(K + 1), and as much stays: the columns of the matrix sum to 1.
class PushGraph {
 public:
  /// Throws UsageError for another graph, for one that these ranks cannot have, and unless 1 ≤ neighbours < ranks
  /// (for one rank: any).
  PushGraph(const std::string& graph, int ranks, int neighbours);

  /// Requires: 0 ≤ rank < ranks.
  Links links(int rank, Round round) const;
  /// The same on ranks that have the same graph.
  std::string description() const;

 private:
  int ranks_;
  std::string name_;
  std::vector<int> hops_;
  std::size_t neighbours_;  // K
};

/// GossipGraD's partners (Daily et al., "GossipGraD: Scalable Deep Learning using Gossip Communication based
/// Asynchronous Gradient Descent", arXiv 1803.05880, section 4): in round r rank p sends to p + 2^(r mod L) and
/// receives from p − 2^(r mod L), L = ⌈log2 P⌉, where after every L rounds the ranks are numbered anew, by a
/// permutation drawn from `seed`. One message a rank in each round; the matrix of halves has columns and rows that sum
/// to 1. O(P). Requires: 0 ≤ rank < ranks.
Links gossip_links(int rank, int ranks, Round round, std::uint64_t seed);

}  // namespace stretto
