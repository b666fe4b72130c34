#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "stretto/ordering/orderer/graph.h"
#include "stretto/train/ordering/model_collectives.h"

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

/// A parameter whose gradient is reduced, and how ranks describe it.
struct ReducedParameter {
  at::Tensor parameter;
  TensorDescription gradient;
};

/// Makes the executed graph of a training step from what autograd has recorded, forward and backward pass (TOPO: Pumma
/// et al., "Alleviating Load Imbalance in Data Processing for Large-Scale Deep Learning", section IV-D, where it is the
/// graph of TensorFlow). Fixed after construction.
class GraphRecorder {
 public:
  /// `collectives`: the sums inside the model, whose uses are to be recorded (ModelCollectives::record()); null: none.
  explicit GraphRecorder(std::vector<ReducedParameter> parameters,
                         std::shared_ptr<const ModelCollectives> collectives = nullptr);

  /// Of the step that has computed `loss`; before its backward pass, which frees the graph.
  ///
  /// Nodes, in the order of creation: the operations of the forward pass; those of the backward pass, and behind each
  /// of them the gradients that it completes. Edges: a forward operation after those whose results it reads; the
  /// backward pass after the loss, and in it the same edges in reverse. And program order: a pass waits in each sum
  /// inside the model, so all that it hands over later, sums and gradients, comes after that one. Such a sum is the
  /// node of its module's result; one that autograd does not see has a node of its own, where it was asked for. A
  /// parameter without a gradient in this step has no node. So nodes are equal on ranks that have executed the same.
  ///
  /// Throws UsageError for a loss that was not computed from anything that needs a gradient.
  ExecutedGraph graph_of(const at::Tensor& loss) const;

 private:
  std::vector<at::Tensor> parameters_;  // keeps the keys below in use
  std::unordered_map<const void*, TensorDescription> gradient_of_;
  std::shared_ptr<const ModelCollectives> collectives_;
};

}  // namespace stretto
