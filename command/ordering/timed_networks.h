#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stretto::command {

/// A network's graph, and how long it takes to make an order of it.
struct NetworkTime {
  std::string name;
  std::int64_t parameters = 0;  ///< trained numbers
  /// Of the graph that autograd has recorded: operations of the forward pass, and parameters.
  std::uint32_t nodes = 0, edges = 0;
  /// Of the executed graph made of it, both passes.
  std::uint32_t executed_nodes = 0, executed_edges = 0;
  std::uint32_t tensors = 0;  ///< gradients
  std::uint64_t buffers = 0;
  // Milliseconds of each repeat.
  std::vector<double> record;  ///< GraphRecorder::graph_of()
  std::vector<double> plan;    ///< plan_order()
  std::vector<double> hash;    ///< OrderingPlan::fingerprint(), by which ranks see that they have planned alike
  double step = 0;             ///< milliseconds of one step: forward and backward pass over two images, on one core
};

/// Of each of image_networks(): executes one step over two images, and times what comes between its passes `repeats`
/// times.
std::vector<NetworkTime> time_networks(int repeats);

}  // namespace stretto::command
