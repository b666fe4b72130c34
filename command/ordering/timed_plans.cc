#include "command/ordering/timed_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "command/statistics/statistics.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/ordering/topo/plan.h"
#include "stretto/ordering/topo/topo.h"
#include "stretto/ordering/waiting/rank_patience.h"

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

namespace {

/// One rank that is all members of its process set: what it asks of the others is answered at once.
class LonelyTopo {
 public:
  LonelyTopo() : topo_({.coordinator = {.ranks = {0}, .cycle_time = Duration(1)}}, patience_) {
    const auto& networks = counted_networks();
    const auto network = std::ranges::find(networks, std::string_view("ResNet-50"),
                                           [](const auto& it) { return std::string_view(it.name); });
    STRETTO_CHECK(network != networks.end(), "no ResNet-50 among the networks");
    graph_ = layered_graph(network->nodes, network->edges, network->gradients, 1);
    for (const auto& collective : graph_.collectives) tensors_.push_back(topo_.tensor(collective.tensor));
  }

  /// Seconds that a buffer of the step took; NaN where the step was not planned.
  double step(StepNumber step) {
    for (const TensorId tensor : tensors_) topo_.submitted(tensor, step).or_throw();
    topo_.executed(step, graph_);
    const bool planned = topo_.planned();
    const TimePoint full = clock_.now();
    topo_.step_ended(step);
    int buffers = 0;
    while (topo_.closed() <= step) buffers += act(topo_.next(clock_.now())) ? 1 : 0;
    const double taken = seconds(clock_.now() - full) / std::max(1, buffers);
    topo_.take_outcomes();
    return planned ? taken : std::nan("");
  }

 private:
  /// Whether the action was to issue a buffer.
  bool act(const OrdererAction& action) {
    using Kind = OrdererAction::Kind;
    switch (action.kind) {
      case Kind::sync:
      case Kind::broadcast:
      case Kind::minimum:
        topo_.control({.control = action.control, .words = action.words, .bytes = action.bytes, .nap = action.nap});
        return false;
      case Kind::gather: topo_.control({.control = action.control, .gathered = {action.bytes}}); return false;
      case Kind::issue: topo_.completed(action.buffer.number, {.changed = action.buffer.changed}); return true;
      case Kind::fail: throw Failure(*action.error);
      case Kind::tell:
      case Kind::sleep:
      case Kind::wait:
      case Kind::end: break;
    }
    return false;
  }

  const SteadyClock clock_;
  RankPatience patience_;
  Topo topo_;
  ExecutedGraph graph_;
  std::vector<TensorId> tensors_;
};

}  // namespace

double measure_bookkeeping(int steps) {
  LonelyTopo topo;
  std::vector<double> taken;
  StepNumber step = 0;
  while (std::isnan(topo.step(step++))) STRETTO_CHECK(step < 100, "no plan after ", step, " steps");
  for (int i = 0; i < steps; ++i) taken.push_back(topo.step(step++));
  return median(taken);
}

}  // namespace stretto::command
