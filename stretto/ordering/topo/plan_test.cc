#include "stretto/ordering/topo/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <numeric>
#include <set>
#include <tuple>

#include "stretto/base/error.h"
#include "stretto/base/random.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorDescription tensor(const std::string& name, int set = 0, std::uint64_t count = 1) {
  return {.name = name, .set = set, .count = count};
}

std::vector<std::vector<std::string>> names_of(const OrderingPlan& plan) {
  std::vector<std::vector<std::string>> names;
  for (const auto& buffer : plan.buffers) {
    names.emplace_back();
    for (const std::uint32_t id : buffer.tensors) names.back().push_back(plan.tensors[id].name);
  }
  return names;
}

std::string refusal(const ExecutedGraph& graph, const FusionOptions& options = {}) {
  try {
    plan_order(graph, options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

/// Pumma et al., Fig. 8: 0 and 1 are logically concurrent, 2 depends on 0, 3 on 2, and 4 is no sibling of 1
/// and lies deeper.
TEST(OrderingPlan, OfFigure8OfThePaper) {
  enum : ExecutedGraph::Node { a0, a1, a2, a3, x, y, a4 };
  const ExecutedGraph graph{
      .num_nodes = 7,
      .edges = {{a0, a2}, {a2, a3}, {x, y}, {y, a4}},
      .collectives = {{a4, tensor("4")}, {a1, tensor("1")}, {a3, tensor("3")}, {a0, tensor("0")}, {a2, tensor("2")}}};
  EXPECT_THAT(names_of(plan_order(graph)), ElementsAre(ElementsAre("0", "1"), ElementsAre("2"), ElementsAre("3", "4")));
}

/// x1 before y1 and y2 before x2, of two process sets: {x1, x2} and {y1, y2} would wait for each other for ever.
TEST(OrderingPlan, TwoProcessSetsDoNotWaitInACircle) {
  enum : ExecutedGraph::Node { x1, y1, y2, x2 };
  const ExecutedGraph graph{
      .num_nodes = 4,
      .edges = {{x1, y1}, {y2, x2}},
      .collectives = {{x1, tensor("x1", 0)}, {y1, tensor("y1", 1)}, {y2, tensor("y2", 1)}, {x2, tensor("x2", 0)}}};
  const OrderingPlan plan = plan_order(graph);
  const auto names = names_of(plan);
  const auto buffer_of = [&](const std::string& name) {
    return std::ranges::find_if(names, [&](const auto& in) { return std::ranges::count(in, name) > 0; }) -
           names.begin();
  };
  EXPECT_LT(buffer_of("x1"), buffer_of("y1"));
  EXPECT_LT(buffer_of("y2"), buffer_of("x2"));
}

TEST(OrderingPlan, BuffersAreNoLargerThanIsAskedAndATensorThatIsHasItsOwn) {
  ExecutedGraph graph{.num_nodes = 6, .edges = {}, .collectives = {}};
  const std::uint64_t counts[] = {10, 10, 30, 5, 5, 1};  // of 4 bytes, 80 in a buffer
  for (ExecutedGraph::Node n = 0; n < 6; ++n) graph.collectives.push_back({n, tensor(text(n), 0, counts[n])});
  EXPECT_THAT(names_of(plan_order(graph, {.fusion_bytes = 80})),
              ElementsAre(ElementsAre("0", "1"), ElementsAre("2"), ElementsAre("3", "4", "5")));
  graph.collectives[1].tensor.type = DataType::float64;
  graph.collectives[3].tensor.op = ReduceOp::max;
  graph.collectives[5].tensor.fuses = false;
  EXPECT_THAT(names_of(plan_order(graph, {.fusion_bytes = 80})),
              ElementsAre(ElementsAre("0"), ElementsAre("1"), ElementsAre("2"), ElementsAre("3"), ElementsAre("4"),
                          ElementsAre("5")));
}

TEST(OrderingPlan, RefusesWhatIsNoGraph) {
  const auto graph = [](std::vector<ExecutedGraph::Edge> edges) {
    return ExecutedGraph{
        .num_nodes = 3, .edges = std::move(edges), .collectives = {{1, tensor("norm")}, {2, tensor("head")}}};
  };
  EXPECT_EQ(refusal(graph({{0, 1}, {1, 2}})), "taken");
  EXPECT_EQ(refusal(graph({{0, 1}, {1, 2}, {2, 1}})),
            "operations wait for one another in a circle: norm after head after norm");
  EXPECT_EQ(refusal(graph({{0, 0}})), "operations wait for one another in a circle: node 0 after node 0");
  EXPECT_EQ(refusal(graph({{0, 3}})), "an edge from node 0 to 3: expected two of 3");
  ExecutedGraph twice = graph({});
  twice.collectives.push_back({0, tensor("head")});
  EXPECT_THAT(refusal(twice), HasSubstr("tensor head of nodes 2 and 0: expected another name"));
  twice.collectives.back() = {1, tensor("other")};
  EXPECT_THAT(refusal(twice), HasSubstr("tensors norm and other of node 1: expected one collective a node"));
  twice.collectives.back() = {3, tensor("other")};
  EXPECT_THAT(refusal(twice), HasSubstr("tensor other of node 3: expected one of 3"));
  EXPECT_THAT(refusal(graph({}), {.fusion_bytes = 3}), HasSubstr("buffers of 3 bytes: expected at least an element"));
  ExecutedGraph ring{.num_nodes = 20, .edges = {}, .collectives = {}};
  for (ExecutedGraph::Node n = 0; n < 20; ++n) ring.edges.push_back({n, (n + 1) % 20});
  EXPECT_THAT(refusal(ring), HasSubstr("after …"));
}

TEST(OrderingPlan, OfNothingIsEmpty) {
  EXPECT_TRUE(plan_order({}).buffers.empty());
  EXPECT_EQ(plan_order({}).fingerprint(0), plan_order({.num_nodes = 2, .edges = {{0, 1}}}).fingerprint(0));
}

TEST(OrderingPlan, IsPrinted) {
  const ExecutedGraph graph{
      .num_nodes = 2, .edges = {}, .collectives = {{0, tensor("w", 0, 3)}, {1, tensor("b", 0, 2)}}};
  EXPECT_EQ(plan_order(graph).to_text(), "0: set 0, float32, sum, 20 bytes: w, b\n");
}

constexpr std::size_t kMostNodes = 60;

/// Edges go up, of up to 60 nodes, of which some hand over a tensor of one of three process sets.
ExecutedGraph drawn_graph(Random& random) {
  ExecutedGraph graph{.num_nodes = static_cast<ExecutedGraph::Node>(random.between(1, kMostNodes))};
  const double density = random.uniform() * 0.2;
  const auto sets = random.between(1, 3);
  for (ExecutedGraph::Node to = 0; to < graph.num_nodes; ++to) {
    for (ExecutedGraph::Node from = 0; from < to; ++from) {
      if (random.chance(density)) graph.edges.push_back({from, to});
    }
    if (!random.chance(0.6)) continue;
    TensorDescription one = tensor(text("t", to), static_cast<int>(random.below(static_cast<std::uint64_t>(sets))),
                                   static_cast<std::uint64_t>(random.between(0, 6)));
    if (random.chance(0.2)) one.type = DataType::float64;
    if (random.chance(0.1)) one.fuses = false;
    graph.collectives.push_back({to, std::move(one)});
  }
  return graph;
}

/// The promises of plan.h, each by its own words, on graphs that are small enough to know all ancestors of each node.
TEST(OrderingPlan, KeepsItsPromisesOnDrawnGraphs) {
  Random random(7, 1);
  for (int draw = 0; draw < 2000; ++draw) {
    const ExecutedGraph graph = drawn_graph(random);
    const FusionOptions options{.fusion_bytes = 8 + random.below(40)};
    const OrderingPlan plan = plan_order(graph, options);
    std::vector<std::bitset<kMostNodes>> ancestors(graph.num_nodes);
    std::vector<int> depth(graph.num_nodes);
    for (const auto& [from, to] : graph.edges) {  // in the order of `to`
      ancestors[to] |= ancestors[from];
      ancestors[to].set(from);
      depth[to] = std::max(depth[to], depth[from] + 1);
    }
    std::vector<ExecutedGraph::Node> node_of;  // by id
    for (const TensorDescription& one : plan.tensors) {
      const auto of_name = [&](const auto& collective) { return collective.tensor.name == one.name; };
      const auto found = std::ranges::find_if(graph.collectives, of_name);
      ASSERT_NE(found, graph.collectives.end());
      ASSERT_EQ(found->tensor, one);
      node_of.push_back(found->node);
    }
    ASSERT_EQ(node_of.size(), graph.collectives.size());
    std::vector<std::uint32_t> times(node_of.size());
    for (std::uint32_t number = 0; number < plan.buffers.size(); ++number) {
      const auto& buffer = plan.buffers[number];
      ASSERT_FALSE(buffer.tensors.empty());
      ASSERT_TRUE(std::ranges::is_sorted(buffer.tensors));
      const TensorDescription& first = plan.tensors[buffer.tensors.front()];
      std::uint64_t bytes = 0;
      for (const std::uint32_t id : buffer.tensors) {
        const TensorDescription& one = plan.tensors[id];
        ASSERT_EQ(std::tuple(one.set, one.type, one.op), std::tuple(first.set, first.type, first.op));
        ASSERT_TRUE(one.fuses || buffer.tensors.size() == 1);
        ASSERT_EQ(plan.buffer_of[id], number);
        bytes += one.bytes();
        ++times[id];
      }
      ASSERT_EQ(bytes, buffer.bytes);
      ASSERT_TRUE(bytes <= options.fusion_bytes || buffer.tensors.size() == 1);
    }
    ASSERT_TRUE(std::ranges::all_of(times, [](std::uint32_t n) { return n == 1; }));
    for (std::size_t a = 0; a < node_of.size(); ++a) {
      for (std::size_t b = 0; b < node_of.size(); ++b) {
        if (ancestors[node_of[b]].test(node_of[a])) {
          ASSERT_LT(a, b) << "parents come before children";
          ASSERT_LT(plan.buffer_of[a], plan.buffer_of[b]);
        }
        if (a < b) {
          ASSERT_LT(std::pair(depth[node_of[a]], node_of[a]), std::pair(depth[node_of[b]], node_of[b]));
        }
      }
    }
  }
}

TEST(OrderingPlan, KnowsNoOrderOfEdgesAndCollectives) {
  Random random(8, 1);
  for (int draw = 0; draw < 200; ++draw) {
    const ExecutedGraph graph = drawn_graph(random);
    ExecutedGraph shuffled = graph;
    for (std::size_t i = shuffled.edges.size(); i > 1; --i)
      std::swap(shuffled.edges[i - 1], shuffled.edges[random.below(i)]);
    std::ranges::reverse(shuffled.collectives);
    const OrderingPlan one = plan_order(graph, {.fusion_bytes = 20}),
                       other = plan_order(shuffled, {.fusion_bytes = 20});
    EXPECT_EQ(one.tensors, other.tensors);
    EXPECT_EQ(one.buffer_of, other.buffer_of);
    for (int set = 0; set < 3; ++set) EXPECT_EQ(one.fingerprint(set), other.fingerprint(set));
  }
}

/// Anything that would make two ranks reduce different things shows in the fingerprint of that set, and of no other.
TEST(OrderingPlan, FingerprintsTellPlansApart) {
  const ExecutedGraph graph{.num_nodes = 4,
                            .edges = {{0, 1}},
                            .collectives = {{0, tensor("a")}, {1, tensor("b")}, {2, tensor("c")}, {3, tensor("d", 1)}}};
  const OrderingPlan plan = plan_order(graph);
  std::set<std::uint64_t> fingerprints{plan.fingerprint(0), plan.fingerprint(1)};
  const auto with = [&](auto change) {
    ExecutedGraph other = graph;
    change(other);
    const OrderingPlan changed = plan_order(other);
    EXPECT_EQ(changed.fingerprint(1), plan.fingerprint(1));
    EXPECT_TRUE(fingerprints.insert(changed.fingerprint(0)).second);
  };
  with([](ExecutedGraph& g) { g.edges.clear(); });
  with([](ExecutedGraph& g) { g.collectives[0].tensor.name = "A"; });
  with([](ExecutedGraph& g) { g.collectives[0].tensor.name = "b", g.collectives[1].tensor.name = "a"; });
  with([](ExecutedGraph& g) { g.collectives[0].tensor.count = 2; });
  with([](ExecutedGraph& g) { g.collectives[0].tensor.type = DataType::int32; });
  with([](ExecutedGraph& g) { g.collectives[0].tensor.op = ReduceOp::max; });
  with([](ExecutedGraph& g) { g.collectives.erase(g.collectives.begin()); });
}

}  // namespace
}  // namespace stretto
