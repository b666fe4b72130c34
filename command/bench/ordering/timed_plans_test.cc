#include "command/bench/ordering/timed_plans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "stretto/ordering/plan.h"

namespace stretto::command {
namespace {

TEST(TimedPlans, GraphsHaveTheSizesOfThePaper) {
  for (const CountedNetwork& network : counted_networks()) {
    const ExecutedGraph graph = layered_graph(network.nodes, network.edges, network.gradients, 3);
    EXPECT_EQ(graph.num_nodes, network.nodes);
    EXPECT_EQ(graph.edges.size(), network.edges);
    EXPECT_EQ(graph.collectives.size(), network.gradients);
    std::set<ExecutedGraph::Node> nodes;
    for (const auto& collective : graph.collectives) {
      EXPECT_TRUE(nodes.insert(collective.node).second);
      EXPECT_GE(collective.node, network.nodes - network.nodes / 2);
    }
    EXPECT_EQ(plan_order(graph).tensors.size(), network.gradients);
  }
}

TEST(TimedPlans, GrowWithTheGraph) {
  const auto times = time_plans(3, 1 << 16);
  ASSERT_EQ(times.size(), counted_networks().size() + 3);
  for (const PlanTime& time : times) {
    EXPECT_GT(time.ms, 0) << time.name;
    EXPECT_LT(time.ms, 200) << time.name;  // a watchdog: twenty times as long as it takes on a busy machine
    EXPECT_GE(time.buffers, 1u) << time.name;
  }
  EXPECT_EQ(times.back().nodes, 1u << 16);
}

}  // namespace
}  // namespace stretto::command
