#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "stretto/ordering/topo/set_plan.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;
using Edges = std::vector<ExecutedGraph::Edge>;

/// A node for each tensor, in this order.
ExecutedGraph graph_in_order(const std::vector<TensorDescription>& tensors, const Edges& edges = {}) {
  ExecutedGraph graph{.edges = edges};
  for (const TensorDescription& tensor : tensors) graph.collectives.push_back({graph.num_nodes++, tensor});
  return graph;
}

TensorDescription weight(const std::string& name, std::uint64_t count = 4) {
  return {.name = name, .count = count};
}

SetPlan plan_of(const ExecutedGraph& graph) {
  return SetPlan::of(plan_order(graph), 0, false);
}

std::string difference(const ExecutedGraph& first, const ExecutedGraph& other) {
  return plan_differences(std::vector<RankPlan>{{0, plan_of(first)}, {2, plan_of(other)}});
}

TEST(PlanDifference, NothingIsSaidOfGraphsThatArePlannedAlike) {
  EXPECT_EQ(plan_differences({}), "");
  const ExecutedGraph graph = graph_in_order({weight("a"), weight("b")}, {{0, 1}});
  EXPECT_EQ(difference(graph, graph), "");
  EXPECT_EQ(plan_differences(std::vector<RankPlan>{{1, plan_of(graph)}}), "");
}

TEST(PlanDifference, NamesTheFirstTensorThatDiffers) {
  const ExecutedGraph first = graph_in_order({weight("a"), weight("b"), weight("c")});
  const std::string begins = "rank 2's graph differs from rank 0's, first at tensor ";
  EXPECT_EQ(difference(first, graph_in_order({weight("a"), weight("x"), weight("c")})),
            begins + "x (float32, sum, 4 elements), which rank 0 does not have");
  EXPECT_EQ(difference(first, graph_in_order({weight("a"), weight("c")})),
            begins + "b (float32, sum, 4 elements), which rank 2 does not have");
  EXPECT_EQ(difference(first, graph_in_order({weight("a"), weight("b")})),
            begins + "c (float32, sum, 4 elements), which rank 2 does not have");
  EXPECT_EQ(difference(first, graph_in_order({weight("a"), weight("b"), weight("c"), weight("d")})),
            begins + "d (float32, sum, 4 elements), which rank 0 does not have");
  EXPECT_EQ(difference(first, graph_in_order({weight("a"), weight("b", 5), weight("c")})),
            begins + "b (float32, sum, 5 elements), where rank 0 has b (float32, sum, 4 elements)");
  EXPECT_EQ(difference(first, graph_in_order({weight("a"), weight("c"), weight("b")})),
            begins + "c (float32, sum, 4 elements), where rank 0 has b (float32, sum, 4 elements)");
  EXPECT_EQ(difference(first, graph_in_order({weight("a"), weight("b"), weight("c")}, {{0, 2}})),
            begins + "c (float32, sum, 4 elements), which waits for other tensors than on rank 0");
  ExecutedGraph waits = first;
  waits.edges.push_back({2, waits.num_nodes++});
  EXPECT_EQ(difference(first, waits), "rank 2's graph differs from rank 0's, first at the end of the step");
}

TEST(PlanDifference, NamesTheOtherRanksWhoseGraphsDiffer) {
  const SetPlan a = plan_of(graph_in_order({weight("a")})), b = plan_of(graph_in_order({weight("b")}));
  EXPECT_THAT(plan_differences(std::vector<RankPlan>{{0, a}, {1, b}, {2, a}, {3, b}}),
              HasSubstr("which rank 0 does not have; so does that of rank 3"));
  EXPECT_THAT(plan_differences(std::vector<RankPlan>{{0, a}, {1, b}, {2, b}, {3, b}}),
              HasSubstr("; so do those of ranks 2, 3"));
}

}  // namespace
}  // namespace stretto
