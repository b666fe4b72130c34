#include "stretto/train/ordering/autograd_walk.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <queue>
#include <unordered_map>
#include <utility>

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

}  // namespace stretto
