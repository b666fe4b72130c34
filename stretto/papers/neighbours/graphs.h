#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/transport/transport.h"

namespace stretto {

/// The edges of an undirected graph of ranks; each once, the lower rank first, ascending.
using Edges = std::vector<std::pair<int, int>>;

/// Reads a graph: one edge a line, two ranks with blanks between them; empty lines, and what follows a `#`, count for
/// nothing. `name` is the file's, for messages. Throws UsageError, with the number of the line, where one is no edge
/// between two different ranks below `ranks`, or the edge of an earlier line; and with the ranks that cannot be reached
/// from rank 0, where the graph is not connected.
Edges parse_edges(std::string_view content, const std::string& name, int ranks);

/// The same from a file. Throws UsageError where it cannot be read, too.
Edges read_edges(const std::string& path, int ranks);

/// The ranks that one rank sends to, and those that it receives from, in one round: its out- and its in-neighbours.
/// Ascending, each once, without the rank itself.
struct Links {
  std::vector<int> out;
  std::vector<int> in;
  friend bool operator==(const Links&, const Links&) = default;   ///< both lists are equal
  friend auto operator<=>(const Links&, const Links&) = default;  ///< some order, to look them up by
};

/// ⌈log2 ranks⌉, but at least 1: so many hops of lengths 1, 2, 4, … are shorter than once around.
inline int num_hops(int ranks) {
  return ranks <= 2 ? 1 : static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
}

/// `rank` and `hop` steps further around the ring of `ranks`. Requires: −ranks ≤ hop ≤ ranks.
inline int around(int rank, int hop, int ranks) {
  return (rank + hop + ranks) % ranks;
}

/// How much a neighbour's model counts in the mean: 1/parts.
struct Share {
  int rank;
  int parts;
  friend bool operator==(const Share&, const Share&) = default;  ///< both fields are equal
};

/// Who averages with whom, and by which weights, where every rank takes the weighted mean of its own model and its
/// neighbours' in each round: D-PSGD (Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?",
/// NeurIPS 2017, Algorithm 1). A function of the round alone. Fixed after construction.
///
/// In every round the matrix of weights is symmetric and its rows sum to 1: what a neighbour counts here is what this
/// rank counts there, and the own model counts the rest. So the mean of all models stays what it was.
///
/// The graphs, for P ranks:
/// - `ring`: ranks p − 1 and p + 1;
/// - `exponential`: in round r ranks p ± 2^(r mod ⌈log2 P⌉);
/// - `bipartite`: in round r each even rank p and rank p + h alone, h the next of 1, 3, 5, 9, 17, …, 2^i + 1: all odd.
///   Needs an even P;
/// - `complete`: all other ranks;
/// - anything else: the path of a file of edges (read_edges()).
///
/// In the first four each of K neighbours and the own model count 1/(K + 1); in the last one a neighbour counts
/// 1/(1 + the larger number of neighbours of the two) (Metropolis weights: Xiao, Boyd and Lall, "A Scheme for Robust
/// Distributed Sensor Fusion Based on Average Consensus", IPSN 2005, section 2).
class MixingGraph {
 public:
  /// Reads the file, if `graph` names one. Throws UsageError for a graph that these ranks cannot have. Requires:
  /// ranks ≥ 1.
  MixingGraph(const std::string& graph, int ranks);
  /// Of these edges. Requires: they are as parse_edges() returns them.
  MixingGraph(const Edges& edges, int ranks);

  /// The neighbours of a rank, ascending; none for one rank. O(their number). Requires: 0 ≤ rank < ranks.
  std::vector<Share> shares(int rank, Round round) const;
  /// The same without weights.
  Links links(int rank, Round round) const;
  /// The graph in words and numbers, the same on ranks that have the same one.
  std::string description() const;

 private:
  enum class Kind { ring, exponential, bipartite, complete, edges };

  int ranks_;
  std::string name_;
  Kind kind_;
  std::vector<std::vector<int>> neighbours_;  // of each rank, ascending; Kind::edges alone
};

/// The weight of the own model: what `shares` leave of 1.
double own_share(const std::vector<Share>& shares);

/// Lengths of hops, all odd: 1, 3, 5, 9, 17, …, 2^i + 1, shorter than once around. Requires: an even number of ranks.
std::vector<int> odd_hops(int ranks);
/// Throws UsageError for an odd number of ranks, but 1.
void require_even(int ranks);

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
