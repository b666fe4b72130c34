#include "command/bench/ordering/timed_plans.h"

#include <fmt/format.h>

#include <algorithm>

#include "command/statistics/statistics.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/ordering/plan.h"

namespace stretto::command {

namespace {

constexpr std::uint32_t kNear = 20;  // nodes

/// The median over graphs of that size, each planned once: a processor learns a graph that is planned again and again.
PlanTime timed(const std::string& name, std::uint32_t nodes, std::uint32_t edges, std::uint32_t gradients,
               int repeats) {
  const SteadyClock clock;
  std::vector<double> times, buffers;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const ExecutedGraph graph = layered_graph(nodes, edges, gradients, static_cast<std::uint64_t>(repeat) + 1);
    const TimePoint begin = clock.now();
    const OrderingPlan plan = plan_order(graph);
    times.push_back(seconds(clock.now() - begin) * 1e3);
    buffers.push_back(static_cast<double>(plan.buffers.size()));
  }
  return {.name = name,
          .nodes = nodes,
          .edges = edges,
          .gradients = gradients,
          .buffers = static_cast<std::size_t>(median(buffers)),
          .ms = median(times)};
}

}  // namespace

const std::vector<CountedNetwork>& counted_networks() {
  static const std::vector<CountedNetwork> networks{{"ResNet-18", 1714, 2565, 62, 32},
                                                    {"ResNet-34", 2866, 4325, 110, 86},
                                                    {"ResNet-50", 3988, 6042, 161, 159},
                                                    {"ResNet-101", 7558, 11499, 314, 594},
                                                    {"ResNet-152", 11128, 16956, 467, 1274},
                                                    {"AlexNet", 655, 893, 16, 6},
                                                    {"GoogLeNet", 3499, 4970, 173, 182},
                                                    {"Inception-v3", 6146, 9211, 284, 382},
                                                    {"VGG16", 1091, 1479, 32, 17}};
  return networks;
}

ExecutedGraph layered_graph(std::uint32_t nodes, std::uint32_t edges, std::uint32_t gradients, std::uint64_t seed) {
  STRETTO_CHECK(edges + 1 >= nodes && gradients <= nodes / 2, nodes, " nodes, ", edges, " edges, ", gradients,
                " gradients");
  Random random(seed, 1);
  ExecutedGraph graph{.num_nodes = nodes};
  const auto near = [&](std::uint32_t node) {
    return node - 1 - static_cast<std::uint32_t>(random.below(std::min(node, kNear)));
  };
  for (std::uint32_t node = 1; node < nodes; ++node) graph.edges.push_back({near(node), node});
  while (graph.edges.size() < edges) {
    const auto to = static_cast<std::uint32_t>(1 + random.below(nodes - 1));
    graph.edges.push_back({near(to), to});
  }
  // Some of the second half, each at most once: a selection by chance of what is left.
  std::uint32_t left = gradients;
  for (std::uint32_t node = nodes - nodes / 2; node < nodes && left > 0; ++node) {
    if (random.below(nodes - node) >= left) continue;
    graph.collectives.push_back(
        {node, {.name = fmt::format("gradient {}", left), .count = random.log_uniform(1, 1'000'000)}});
    --left;
  }
  return graph;
}

std::vector<PlanTime> time_plans(int repeats, std::uint32_t most_nodes) {
  std::vector<PlanTime> times;
  for (const CountedNetwork& network : counted_networks()) {
    times.push_back(timed(network.name, network.nodes, network.edges, network.gradients, repeats));
    times.back().paper_ms = network.paper_ms;
  }
  for (std::uint32_t nodes = std::min<std::uint32_t>(most_nodes, 1 << 14); nodes <= most_nodes; nodes *= 2) {
    times.push_back(timed(fmt::format("{} nodes", nodes), nodes, nodes + nodes / 2, nodes / 24, repeats));
  }
  return times;
}

}  // namespace stretto::command
