#include "stretto/train/ordering/graph_recorder.h"

#include <ATen/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <span>
#include <unordered_set>

#include "stretto/base/error.h"
#include "stretto/train/ordering/autograd_walk.h"

namespace stretto {
namespace {

using Use = ModelCollectives::Use;

/// Puts the nodes of one step's graph together: first the forward pass, then the backward pass.
class Passes {
 public:
  Passes(const AutogradWalk& walk, const std::unordered_map<const void*, TensorDescription>& gradient_of,
         std::span<const Use> uses)
      : walk_(walk), gradient_of_(gradient_of) {
    std::unordered_set<const void*> seen(walk.nodes.begin(), walk.nodes.end());
    for (const Use& use : uses) {
      if (seen.contains(use.node)) {
        use_of_.emplace(use.node, &use);
      } else {
        unseen_.push_back(&use);
      }
    }
  }

  ExecutedGraph graph() {
    forward();
    backward();
    return std::move(graph_);
  }

 private:
  ExecutedGraph::Node add() { return graph_.num_nodes++; }

  /// `node` hands a tensor over: after the sum for which its thread has waited last.
  void hand_over(ExecutedGraph::Node node, const TensorDescription& tensor) {
    graph_.collectives.push_back({node, tensor});
    if (waited_for_) graph_.edges.push_back({*waited_for_, node});
  }
  void hand_over_and_wait(ExecutedGraph::Node node, const TensorDescription& tensor) {
    hand_over(node, tensor);
    waited_for_ = node;
  }

  const Use* use_of(std::size_t place) const {
    const auto found = use_of_.find(walk_.nodes[place]);
    return found == use_of_.end() ? nullptr : found->second;
  }

  void forward() {
    number_.resize(walk_.nodes.size());
    auto unseen = unseen_.begin();
    for (std::size_t place = 0; place < walk_.nodes.size(); ++place) {
      if (is_leaf(*walk_.nodes[place])) continue;
      for (; unseen != unseen_.end() && (*unseen)->sequence <= walk_.nodes[place]->sequence_nr(); ++unseen) {
        hand_over_and_wait(add(), (*unseen)->forward);
      }
      number_[place] = add();
      if (const Use* use = use_of(place)) hand_over_and_wait(number_[place], use->forward);
    }
    for (; unseen != unseen_.end(); ++unseen) hand_over_and_wait(add(), (*unseen)->forward);
    for (const auto& [input, reader] : walk_.edges) {
      if (!is_leaf(*walk_.nodes[input])) graph_.edges.push_back({number_[input], number_[reader]});
    }
  }

  void backward() {
    const ExecutedGraph::Node first = graph_.num_nodes, loss = number_.back();
    if (waited_for_) graph_.edges.push_back({*waited_for_, first});
    graph_.edges.push_back({loss, first});
    waited_for_.reset();
    const auto node_of = [&](std::size_t place) {
      return first + static_cast<ExecutedGraph::Node>(walk_.nodes.size() - 1 - place);
    };
    for (std::size_t place = walk_.nodes.size(); place-- > 0;) {
      const ExecutedGraph::Node node = add();
      if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(walk_.nodes[place])) {
        const auto found = gradient_of_.find(leaf->variable.unsafeGetTensorImpl());
        if (found != gradient_of_.end()) hand_over(node, found->second);
      } else if (const Use* use = use_of(place); use != nullptr && use->backward) {
        hand_over_and_wait(node, *use->backward);
      }
    }
    for (const auto& [input, reader] : walk_.edges) graph_.edges.push_back({node_of(reader), node_of(input)});
  }

  const AutogradWalk& walk_;
  const std::unordered_map<const void*, TensorDescription>& gradient_of_;
  std::unordered_map<const void*, const Use*> use_of_;  // by node
  std::vector<const Use*> unseen_;                      // that have none in the walk
  ExecutedGraph graph_;
  std::vector<ExecutedGraph::Node> number_;        // in the forward pass, by place in the walk
  std::optional<ExecutedGraph::Node> waited_for_;  // by the thread of the pass, last
};

}  // namespace

GraphRecorder::GraphRecorder(std::vector<ReducedParameter> parameters,
                             std::shared_ptr<const ModelCollectives> collectives)
    : collectives_(std::move(collectives)) {
  for (auto& [parameter, gradient] : parameters) {
    gradient_of_.emplace(parameter.unsafeGetTensorImpl(), std::move(gradient));
    parameters_.push_back(std::move(parameter));
  }
}

ExecutedGraph GraphRecorder::graph_of(const at::Tensor& loss) const {
  if (loss.grad_fn() == nullptr) {
    throw UsageError("the loss has no graph: expected one that was computed from what needs a gradient");
  }
  const AutogradWalk walk = walk_autograd(loss.grad_fn().get());
  std::span<const Use> uses;
  if (collectives_ != nullptr) uses = collectives_->uses();
  return Passes(walk, gradient_of_, uses).graph();
}

}  // namespace stretto
