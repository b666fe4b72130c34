#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stretto/papers/neighbours/graph_file.h"
#include "stretto/papers/neighbours/links.h"
#include "stretto/transport/transport.h"

namespace stretto {

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
/// - anything else: the path of a file of edges (graph_file.h).
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

}  // namespace stretto
