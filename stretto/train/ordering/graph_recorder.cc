#include "stretto/train/ordering/graph_recorder.h"

#include <ATen/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <queue>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using torch::autograd::Node;

constexpr std::uint32_t kNone = 0xffffffff;

/// A graph in the order in which a walk from its root finds it.
struct Found {
  std::vector<Node*> nodes;
  std::vector<bool> leaf;
  std::vector<std::uint32_t> inputs;   // of all nodes, one node's behind the other's
  std::vector<std::size_t> first;      // of each node: index into inputs
  std::vector<std::size_t> past_last;  // likewise
};

Found find_all(Node* root) {
  constexpr std::size_t kUsual = 1024;
  Found found;
  std::unordered_map<const Node*, std::uint32_t> index;
  index.reserve(kUsual);
  const auto add = [&](Node* node) {
    const auto [at, is_new] = index.try_emplace(node, static_cast<std::uint32_t>(found.nodes.size()));
    if (is_new) {
      found.nodes.push_back(node);
      found.leaf.push_back(node != root && is_leaf(*node));
    }
    return std::pair(at->second, is_new);
  };
  std::vector<std::uint32_t> todo = {add(root).first};
  while (!todo.empty()) {
    const std::uint32_t node = todo.back();
    todo.pop_back();
    found.first.resize(found.nodes.size());
    found.past_last.resize(found.nodes.size());
    found.first[node] = found.inputs.size();
    for (const auto& edge : found.nodes[node]->next_edges()) {
      if (!edge.is_valid()) continue;
      const auto [input, is_new] = add(edge.function.get());
      found.inputs.push_back(input);
      if (is_new) todo.push_back(input);
    }
    found.past_last[node] = found.inputs.size();
  }
  return found;
}

/// The nodes of each node's readers, as `Found` has the inputs; those of leaves are left out.
struct Readers {
  explicit Readers(const Found& found) : first(found.nodes.size() + 1), readers(found.inputs.size()) {
    for (const std::uint32_t input : found.inputs) ++first[input + std::size_t{1}];
    for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    std::vector<std::size_t> next(first.begin(), first.end() - 1);
    for (std::uint32_t node = 0; node < found.nodes.size(); ++node) {
      for (std::size_t i = found.first[node]; i < found.past_last[node]; ++i) readers[next[found.inputs[i]]++] = node;
    }
  }
  std::vector<std::size_t> first;
  std::vector<std::uint32_t> readers;
};

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

bool is_leaf(const Node& node) {
  return dynamic_cast<const torch::autograd::AccumulateGrad*>(&node) != nullptr;
}

AutogradWalk walk_autograd(Node* root) {
  const Found found = find_all(root);
  const Readers readers(found);
  std::vector<std::uint32_t> missing(found.nodes.size());  // operations that are read and not placed
  for (std::uint32_t node = 0; node < found.nodes.size(); ++node) {
    for (std::size_t i = found.first[node]; i < found.past_last[node]; ++i) {
      if (!found.leaf[found.inputs[i]]) ++missing[node];
    }
  }
  // Numbers of operations ascend in the order in which they are made. Those of two threads may be equal: then the one
  // that was found first.
  using Candidate = std::pair<std::uint64_t, std::uint32_t>;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> ready;
  const auto make_ready = [&](std::uint32_t node) { ready.emplace(found.nodes[node]->sequence_nr(), node); };
  for (std::uint32_t node = 0; node < found.nodes.size(); ++node) {
    if (missing[node] == 0 && !found.leaf[node]) make_ready(node);
  }
  AutogradWalk walk;
  walk.nodes.reserve(found.nodes.size());
  walk.edges.reserve(found.inputs.size());
  std::vector<std::uint32_t> place(found.nodes.size(), kNone);
  const auto put = [&](std::uint32_t node) {
    place[node] = static_cast<std::uint32_t>(walk.nodes.size());
    walk.nodes.push_back(found.nodes[node]);
  };
  while (!ready.empty()) {
    const std::uint32_t node = ready.top().second;
    ready.pop();
    for (std::size_t i = found.first[node]; i < found.past_last[node]; ++i) {
      if (place[found.inputs[i]] == kNone) put(found.inputs[i]);  // a leaf
    }
    put(node);
    for (std::size_t i = found.first[node]; i < found.past_last[node]; ++i) {
      walk.edges.push_back({place[found.inputs[i]], place[node]});
    }
    for (std::size_t i = readers.first[node]; i < readers.first[node + 1]; ++i) {
      if (--missing[readers.readers[i]] == 0) make_ready(readers.readers[i]);
    }
  }
  return walk;
}

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
