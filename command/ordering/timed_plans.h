#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/ordering/orderer/graph.h"

namespace stretto::command {

/// A network whose executed graph has been counted by others (Pumma et al., "Alleviating Load Imbalance in Data
/// Processing for Large-Scale Deep Learning", Table I).
struct CountedNetwork {
  const char* name;
  std::uint32_t nodes, edges;
  std::uint32_t gradients;  ///< parameters, by the published architecture; collectives of the graph
  double paper_ms;          ///< what the paper needs to go through it
};
/// The nine of the table, in its order.
const std::vector<CountedNetwork>& counted_networks();

/// A graph of so many nodes and edges, in layers of a few: each node waits for one of the twenty before it, and the
/// edges that are left lie between such neighbours, too; tensors of 1 to 1,000,000 elements are handed over by nodes of
/// its second half. Requires: edges ≥ nodes − 1; gradients ≤ nodes / 2.
ExecutedGraph layered_graph(std::uint32_t nodes, std::uint32_t edges, std::uint32_t gradients, std::uint64_t seed);

/// How long plan_order() takes.
struct PlanTime {
  std::string name;  ///< a network, or "1048576 nodes"
  std::uint32_t nodes = 0, edges = 0, gradients = 0;
  std::uint64_t buffers = 0;
  double ms = 0;        ///< the median of the repeats
  double paper_ms = 0;  ///< 0: not in the paper
};

/// Of each network, and of graphs that are each twice as large as the one before, up to `most_nodes`.
std::vector<PlanTime> time_plans(int repeats, std::uint32_t most_nodes = 1 << 20);

/// Seconds from full to issued that TOPO's state machine takes for a buffer of a ResNet-50's gradients, once it follows
/// its plan: the median over steps of one rank. Requires: `steps` ≥ 1.
double measure_bookkeeping(int steps);

}  // namespace stretto::command
