#pragma once

#include <cstdint>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace stretto {

/// Autograd's record behind one result, e.g. a loss, before its backward pass.
struct AutogradWalk {
  struct Edge {
    std::uint32_t input = 0;   ///< place of the node that was read
    std::uint32_t reader = 0;  ///< place of the node that has read it
  };

  /// The operations and the leaves (parameters) that the result depends on, each once, and last the result's own
  /// operation. Operations stand in the order in which the forward pass has made them, each leaf before the first
  /// operation that reads it. So the reverse is the order of LibTorch's backward pass on a CPU. Not owned.
  std::vector<torch::autograd::Node*> nodes;
  /// By place in `nodes`, ascending by reader; twice where an operation reads another one twice.
  std::vector<Edge> edges;
};

/// Walks from `root`, the grad_fn() of a result, over next_edges(), without recursion. Equal on ranks whose forward
/// passes, of one thread each, have executed the same. Takes time in proportion to nodes and edges, but for a logarithm
/// where branches are open side by side. Valid until the graph is freed.
AutogradWalk walk_autograd(torch::autograd::Node* root);

/// Whether the node stands for a tensor that was not computed, and gets a gradient: a parameter.
bool is_leaf(const torch::autograd::Node& node);

}  // namespace stretto
