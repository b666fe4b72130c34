#include "stretto/ordering/topo/set_plan.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "stretto/base/defect.h"
#include "stretto/base/words.h"
#include "stretto/ordering/orderer/byte_stream.h"
#include "stretto/ordering/orderer/tensor_table.h"
#include "stretto/ordering/waiting/stall.h"

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

namespace {

/// The tensors of a plan in order, and in which buffer each is.
struct Tensors {
  explicit Tensors(const SetPlan& plan) {
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
      all.insert(all.end(), plan.buffers[b].begin(), plan.buffers[b].end());
      buffer_of.resize(all.size(), b);
    }
  }
  bool have(const std::string& name) const {
    return std::ranges::find(all, name, &TensorDescription::name) != all.end();
  }

  std::vector<TensorDescription> all;
  std::vector<std::size_t> buffer_of;
};

std::string described(const TensorDescription& tensor) {
  return text(tensor.name, " (", to_text(tensor), ")");
}

/// Where the plan of `rank` differs first from that of `first`.
std::string first_difference(const SetPlan& plan, int rank, const SetPlan& plan_of_first, int first) {
  const Tensors theirs(plan), of_first(plan_of_first);
  const std::size_t both = std::min(theirs.all.size(), of_first.all.size());
  std::size_t i = 0;
  while (i < both && theirs.all[i] == of_first.all[i]) ++i;
  const auto lacks = [](const TensorDescription& tensor, int who) {
    return text("tensor ", described(tensor), ", which rank ", who, " does not have");
  };
  if (i < theirs.all.size() && !of_first.have(theirs.all[i].name)) return lacks(theirs.all[i], first);
  if (i < of_first.all.size() && !theirs.have(of_first.all[i].name)) return lacks(of_first.all[i], rank);
  if (i < both) {
    return text("tensor ", described(theirs.all[i]), ", where rank ", first, " has ", described(of_first.all[i]));
  }
  const auto [other, same] = std::ranges::mismatch(theirs.buffer_of, of_first.buffer_of);
  if (other == theirs.buffer_of.end()) return "the end of the step";
  const auto id = static_cast<std::size_t>(other - theirs.buffer_of.begin());
  return text("tensor ", described(theirs.all[id]), ", which waits for other tensors than on rank ", first);
}

}  // namespace

std::string plan_differences(std::span<const RankPlan> plans) {
  std::string out;
  std::vector<int> also;
  for (const RankPlan& other : plans) {
    const RankPlan& first = plans.front();
    if (other.plan == first.plan) continue;
    if (!out.empty()) {
      also.push_back(other.rank);
      continue;
    }
    out = text("rank ", other.rank, "'s graph differs from rank ", first.rank, "'s, first at ",
               first_difference(other.plan, other.rank, first.plan, first.rank));
  }
  if (!also.empty()) out += text("; so ", also.size() == 1 ? "does that of " : "do those of ", ranks_text(also));
  return out;
}

}  // namespace stretto
