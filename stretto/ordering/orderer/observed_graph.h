#pragma once

#include <optional>
#include <vector>

#include "stretto/ordering/orderer/graph.h"
#include "stretto/ordering/orderer/orderer.h"
#include "stretto/ordering/orderer/tensor_table.h"

namespace stretto {

/// A rank's own view of a step whose graph nobody tells it: in which order its application has submitted tensors, and
/// after waiting for which others.
class ObservedGraph {
 public:
  /// The next step begins.
  void clear() {
    order_.clear();
    edges_.clear();
    waited_for_.reset();
  }
  void submitted(TensorId id) {
    if (waited_for_) edges_.push_back({*waited_for_, static_cast<ExecutedGraph::Node>(order_.size())});
    order_.push_back(id);
  }
  void waits_for(TensorId id) {
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (order_[i] == id) waited_for_ = static_cast<ExecutedGraph::Node>(i);
    }
  }
  /// Nodes are numbered in the order of submission.
  ExecutedGraph graph(const TensorTable& table) const {
    ExecutedGraph graph{.num_nodes = static_cast<ExecutedGraph::Node>(order_.size()), .edges = edges_};
    for (std::size_t i = 0; i < order_.size(); ++i) {
      graph.collectives.push_back({static_cast<ExecutedGraph::Node>(i), table.description(order_[i])});
    }
    return graph;
  }

 private:
  std::vector<TensorId> order_;
  std::vector<ExecutedGraph::Edge> edges_;
  std::optional<ExecutedGraph::Node> waited_for_;  // the last one
};

}  // namespace stretto
