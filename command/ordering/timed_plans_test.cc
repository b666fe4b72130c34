#include "command/ordering/timed_plans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "stretto/base/clock.h"
#include "stretto/ordering/topo/plan.h"

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
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  const auto times = time_plans(3, 1 << 16);
  const double all_ms = 1e3 * seconds(clock.now() - begin);
  ASSERT_EQ(times.size(), counted_networks().size() + 3);
  double sum_ms = 0;
  for (const PlanTime& time : times) {
    EXPECT_GT(time.ms, 0) << time.name;
    EXPECT_GE(time.buffers, 1u) << time.name;
    sum_ms += time.ms;
  }
  EXPECT_LT(sum_ms, all_ms) << "each plan takes a part of the time";
  EXPECT_EQ(times.back().nodes, 1u << 16);
}

// However long steps take, and whatever runs beside this: one of them takes a part of the time of all.
TEST(MeasureBookkeeping, TakesSomeTime) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  const double taken = measure_bookkeeping(3);
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, seconds(clock.now() - begin));
}

}  // namespace

}  // namespace stretto::command
