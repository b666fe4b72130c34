#include "stretto/ordering/topo/plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_map>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/ordering/orderer/fusion.h"
#include "stretto/ordering/orderer/tensor_table.h"

namespace stretto {
namespace {

using Node = ExecutedGraph::Node;

constexpr std::uint32_t kNone = 0xffffffff;

/// The edges of a graph by the node that they leave.
class Successors {
 public:
  explicit Successors(const ExecutedGraph& graph) : first_(graph.num_nodes + std::size_t{1}), to_(graph.edges.size()) {
    for (const auto& edge : graph.edges) ++first_[edge.from + std::size_t{1}];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    for (const auto& edge : graph.edges) to_[next[edge.from]++] = edge.to;
  }
  std::span<const Node> of(Node node) const {
    return std::span(to_).subspan(first_[node], first_[node + 1] - first_[node]);
  }

 private:
  std::vector<std::uint32_t> first_;  // index into to_; one more than there are nodes
  std::vector<Node> to_;
};

/// The collective of each node; kNone: it has none.
std::vector<std::uint32_t> collectives_by_node(const ExecutedGraph& graph) {
  std::vector<std::uint32_t> of_node(graph.num_nodes, kNone);
  std::unordered_map<std::string_view, Node> named;
  for (std::uint32_t i = 0; i < graph.collectives.size(); ++i) {
    const auto& [node, tensor] = graph.collectives[i];
    if (node >= graph.num_nodes) {
      throw UsageError(text("tensor ", tensor.name, " of node ", node, ": expected one of ", graph.num_nodes));
    }
    if (of_node[node] != kNone) {
      throw UsageError(text("tensors ", graph.collectives[of_node[node]].tensor.name, " and ", tensor.name, " of node ",
                            node, ": expected one collective a node"));
    }
    if (!named.emplace(tensor.name, node).second) {
      throw UsageError(text("tensor ", tensor.name, " of nodes ", named[tensor.name], " and ", node,
                            ": expected another name for each tensor of a step"));
    }
    of_node[node] = i;
  }
  return of_node;
}

/// Some nodes that wait for one another in a circle, as a text. Requires: there are; `left` have not been reached.
std::string circle_among(const ExecutedGraph& graph, const std::vector<bool>& left,
                         const std::vector<std::uint32_t>& collective_of) {
  std::vector<Node> before(graph.num_nodes, kNone);  // of each node that is left one that it waits for
  for (const auto& [from, to] : graph.edges) {
    if (left[from] && left[to]) before[to] = from;
  }
  Node node = static_cast<Node>(std::ranges::find(left, true) - left.begin());
  std::vector<bool> seen(graph.num_nodes);
  while (!seen[node]) {
    seen[node] = true;
    node = before[node];
  }
  constexpr int kShown = 8;
  const auto name = [&](Node n) {
    return collective_of[n] != kNone ? graph.collectives[collective_of[n]].tensor.name : text("node ", n);
  };
  std::string circle = name(node);
  Node at = before[node];
  for (int shown = 1; at != node; at = before[at], ++shown) {
    if (shown == kShown) {
      circle += " after …";
      break;
    }
    circle += " after " + name(at);
  }
  return circle + " after " + name(node);
}

/// Nodes by the longest way to them, those that are equally far by their numbers. Throws UsageError where there is
/// none.
std::vector<Node> by_depth(const ExecutedGraph& graph, const Successors& successors,
                           const std::vector<std::uint32_t>& collective_of) {
  std::vector<std::uint32_t> missing(graph.num_nodes), depth(graph.num_nodes);
  for (const auto& edge : graph.edges) ++missing[edge.to];
  std::vector<Node> reached;
  reached.reserve(graph.num_nodes);
  for (Node node = 0; node < graph.num_nodes; ++node) {
    if (missing[node] == 0) reached.push_back(node);
  }
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const std::uint32_t next = depth[reached[i]] + 1;
    for (const Node to : successors.of(reached[i])) {
      depth[to] = std::max(depth[to], next);
      if (--missing[to] == 0) reached.push_back(to);
    }
  }
  if (reached.size() < graph.num_nodes) {
    std::vector<bool> left(graph.num_nodes, true);
    for (const Node node : reached) left[node] = false;
    throw UsageError("operations wait for one another in a circle: " + circle_among(graph, left, collective_of));
  }
  // Counted into place: depths are small numbers, and equal ones stay in order.
  std::vector<std::uint32_t> first(reached.empty() ? 1 : std::ranges::max(depth) + std::size_t{2});
  for (const std::uint32_t d : depth) ++first[d + std::size_t{1}];
  std::partial_sum(first.begin(), first.end(), first.begin());
  for (Node node = 0; node < graph.num_nodes; ++node) reached[first[depth[node]]++] = node;
  return reached;
}

/// Puts the next tensor of the plan, in the order of ids, behind buffer `behind`. Returns its buffer.
std::uint32_t add(OrderingPlan& plan, Fusion& fusion, const TensorDescription& tensor,
                  std::optional<std::uint32_t> behind, std::uint64_t limit) {
  if (size_of(tensor.type) > limit) {
    throw UsageError(text("buffers of ", limit, " bytes: expected at least an element of ", tensor.name, ", ",
                          size_of(tensor.type)));
  }
  const std::uint32_t number = fusion.place(tensor, behind);
  if (number == plan.buffers.size()) plan.buffers.emplace_back();
  plan.buffers[number].tensors.push_back(static_cast<std::uint32_t>(plan.tensors.size()));
  plan.buffers[number].bytes += tensor.bytes();
  plan.tensors.push_back(tensor);
  plan.buffer_of.push_back(number);
  return number;
}

/// Whether a planted defect does not see that a tensor must be behind this buffer.
bool ignored(const OrderingPlan& plan, std::uint32_t behind, const TensorDescription& tensor) {
  const bool other_set = plan.tensors[plan.buffers[behind].tensors.front()].set != tensor.set;
  return defect(Defect::fusion_across_path) || (defect(Defect::graph_of_buffers_ignored) && other_set);
}

}  // namespace

OrderingPlan plan_order(const ExecutedGraph& graph, const FusionOptions& options) {
  for (const auto& [from, to] : graph.edges) {
    if (from < graph.num_nodes && to < graph.num_nodes) continue;
    throw UsageError(text("an edge from node ", from, " to ", to, ": expected two of ", graph.num_nodes));
  }
  const std::vector<std::uint32_t> collective_of = collectives_by_node(graph);
  const Successors successors(graph);
  OrderingPlan plan;
  plan.tensors.reserve(graph.collectives.size());
  plan.buffer_of.reserve(graph.collectives.size());
  Fusion fusion(options.fusion_bytes);
  // Of each node one more than the largest number of a buffer with an ancestor of it; 0: there is none.
  std::vector<std::uint32_t> behind(graph.num_nodes);
  for (const Node node : by_depth(graph, successors, collective_of)) {
    std::uint32_t here = behind[node];
    if (collective_of[node] != kNone) {
      auto behind_of = here == 0 ? std::nullopt : std::optional(here - 1);
      if (behind_of && ignored(plan, *behind_of, graph.collectives[collective_of[node]].tensor)) behind_of.reset();
      here = 1 + add(plan, fusion, graph.collectives[collective_of[node]].tensor, behind_of, options.fusion_bytes);
      plan.awaited.push_back(!successors.of(node).empty());
    }
    for (const Node to : successors.of(node)) behind[to] = std::max(behind[to], here);
  }
  return plan;
}

std::uint64_t OrderingPlan::fingerprint(int set) const {
  std::uint64_t hash = hashed(0, static_cast<std::uint64_t>(set));
  for (const Buffer& buffer : buffers) {
    if (tensors[buffer.tensors.front()].set != set) continue;
    hash = hashed(hash, std::uint64_t{buffer.tensors.size()});
    for (const std::uint32_t id : buffer.tensors) hash = hashed(hash, tensors[id]);
  }
  return hashed(hash, std::uint64_t{ends_by_mark(set)});
}

bool OrderingPlan::ends_by_mark(int set) const {
  const auto last = std::ranges::find_if(buffers.rbegin(), buffers.rend(),
                                         [&](const Buffer& buffer) { return tensors[buffer.tensors[0]].set == set; });
  if (last == buffers.rend()) return true;
  return std::ranges::any_of(last->tensors, [&](std::uint32_t id) { return awaited[id]; });
}

std::string OrderingPlan::to_text() const {
  std::string out;
  for (std::size_t number = 0; number < buffers.size(); ++number) {
    const Buffer& buffer = buffers[number];
    const TensorDescription& first = tensors[buffer.tensors.front()];
    out += text(number, ": set ", first.set, ", ", name_of(first.type), ", ", name_of(first.op), ", ", buffer.bytes,
                " bytes:");
    for (std::size_t i = 0; i < buffer.tensors.size(); ++i) {
      out += text(i == 0 ? " " : ", ", tensors[buffer.tensors[i]].name);
    }
    out += '\n';
  }
  return out;
}

}  // namespace stretto
