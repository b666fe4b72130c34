#include "stretto/ordering/topo/set_plan.h"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/ordering/orderer/byte_stream.h"

namespace stretto {

SetPlan SetPlan::of(const OrderingPlan& plan, int set, bool several_sets) {
  SetPlan own;
  for (const OrderingPlan::Buffer& buffer : plan.buffers) {
    if (plan.tensors[buffer.tensors.front()].set != set) continue;
    std::vector<TensorDescription>& tensors = own.buffers.emplace_back();
    for (const std::uint32_t id : buffer.tensors) tensors.push_back(plan.tensors[id]);
  }
  const bool marks = (several_sets || plan.ends_by_mark(set)) && !defect(Defect::no_end_mark);
  if (marks || own.buffers.empty()) own.buffers.emplace_back();
  return own;
}

std::vector<std::byte> SetPlan::encode() const {
  ByteWriter out;
  out.number(buffers.size());
  for (const auto& buffer : buffers) {
    out.number(buffer.size());
    for (const TensorDescription& tensor : buffer) out.tensor(tensor);
  }
  return out.take();
}

Result<SetPlan> SetPlan::decode(std::span<const std::byte> bytes, int set) {
  ByteReader in(bytes);
  SetPlan plan;
  for (std::uint64_t n = in.count(sizeof(std::uint64_t)); n > 0 && in.good(); --n) {
    auto& buffer = plan.buffers.emplace_back();
    for (std::uint64_t t = in.count(kLeastTensorBytes); t > 0 && in.good(); --t) buffer.push_back(in.tensor(set));
  }
  if (!in.whole() || plan.buffers.empty()) return Error{Errc::bad_input, "a plan that cannot be read"};
  return plan;
}

std::vector<std::byte> encode_graph(const ExecutedGraph& graph) {
  ByteWriter out;
  out.number(graph.num_nodes);
  out.number(graph.edges.size());
  for (const auto& [from, to] : graph.edges) out.number(std::uint64_t{from} << 32 | to);
  out.number(graph.collectives.size());
  for (const auto& [node, tensor] : graph.collectives) {
    out.number(node);
    out.tensor(tensor);
  }
  return out.take();
}

Result<ExecutedGraph> decode_graph(std::span<const std::byte> bytes, int set) {
  constexpr std::uint64_t kMostNodes = std::uint64_t{1} << 24;
  ByteReader in(bytes);
  ExecutedGraph graph;
  const std::uint64_t nodes = in.number();
  graph.num_nodes = static_cast<ExecutedGraph::Node>(nodes);
  bool fits = nodes <= kMostNodes;
  for (std::uint64_t n = in.count(sizeof(std::uint64_t)); n > 0 && in.good(); --n) {
    const std::uint64_t edge = in.number();
    graph.edges.push_back(
        {static_cast<ExecutedGraph::Node>(edge >> 32), static_cast<ExecutedGraph::Node>(edge & 0xffffffff)});
    fits = fits && edge >> 32 < nodes && (edge & 0xffffffff) < nodes;
  }
  for (std::uint64_t n = in.count(kLeastTensorBytes + sizeof(std::uint64_t)); n > 0 && in.good(); --n) {
    const std::uint64_t node = in.number();
    fits = fits && node < nodes;
    graph.collectives.push_back({static_cast<ExecutedGraph::Node>(node), in.tensor(set)});
  }
  if (!in.whole() || !fits) return Error{Errc::bad_input, "a graph that cannot be read"};
  return graph;
}

ExecutedGraph union_of(std::span<const RankGraph> graphs) {
  ExecutedGraph all;
  std::unordered_map<std::string, ExecutedGraph::Node> node_of;                       // by name of the tensor
  std::vector<std::pair<ExecutedGraph::Node, std::unordered_set<std::string>>> ends;  // of each graph, and its tensors
  for (const auto& [rank, graph] : graphs) {
    std::vector<const TensorDescription*> reduced(graph.num_nodes);  // by node
    for (const auto& [node, tensor] : graph.collectives) reduced[node] = &tensor;
    std::vector<ExecutedGraph::Node> here(graph.num_nodes);
    for (ExecutedGraph::Node node = 0; node < graph.num_nodes; ++node) {
      here[node] = all.num_nodes;
      if (reduced[node] != nullptr) {
        const auto [found, added] = node_of.try_emplace(reduced[node]->name, all.num_nodes);
        here[node] = found->second;
        if (!added) continue;
        all.collectives.push_back({all.num_nodes, *reduced[node]});
      }
      ++all.num_nodes;
    }
    // A rank that does not submit a tensor brings a null when its step ends: after whatever it waits for.
    const ExecutedGraph::Node end = all.num_nodes++;
    ends.push_back({end, {}});
    for (const auto& [node, tensor] : graph.collectives) ends.back().second.insert(tensor.name);
    for (const auto& [from, to] : graph.edges) {
      all.edges.push_back({here[from], here[to]});
      if (reduced[from] != nullptr) all.edges.push_back({here[from], end});
    }
  }
  for (const auto& [end, submitted] : ends) {
    for (const auto& [node, tensor] : all.collectives) {
      if (!submitted.contains(tensor.name)) all.edges.push_back({end, node});
    }
  }
  return all;
}

}  // namespace stretto
