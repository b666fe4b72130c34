#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "stretto/ordering/graph.h"
#include "stretto/train/ordering/model_collectives.h"

namespace stretto {

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
