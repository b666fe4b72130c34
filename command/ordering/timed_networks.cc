#include "command/ordering/timed_networks.h"

#include <ATen/Parallel.h>
#include <ATen/Tensor.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>

#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/ordering/topo/plan.h"
#include "stretto/train/ordering/graph_recorder.h"
#include "workloads/models/image_network.h"

namespace stretto::command {

namespace {

constexpr std::int64_t kImages = 2;  // one is not enough to normalize a batch of single pixels by

template <class Call>
std::vector<double> times_ms(int repeats, Call call) {
  const SteadyClock clock;
  std::vector<double> times;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const TimePoint begin = clock.now();
    call();
    times.push_back(seconds(clock.now() - begin) * 1e3);
  }
  return times;
}

NetworkTime time_network(const NetworkInfo& info, int repeats) {
  const auto network = info.make();
  network->train();
  NetworkTime time{.name = std::string(info.name)};
  std::vector<ReducedParameter> reduced;
  for (const auto& item : network->named_parameters()) {
    const auto count = static_cast<std::uint64_t>(item.value().numel());
    time.parameters += item.value().numel();
    reduced.push_back({item.value(), {.name = item.key(), .count = count}});
  }
  const auto forward = [&] {
    return network->loss(at::randn({kImages, 3, info.side, info.side}), at::zeros({kImages}, at::kLong));
  };
  const at::Tensor loss = forward();
  const AutogradWalk walk = walk_autograd(loss.grad_fn().get());
  time.nodes = static_cast<std::uint32_t>(walk.nodes.size());
  time.edges = static_cast<std::uint32_t>(walk.edges.size());

  const GraphRecorder recorder(std::move(reduced));
  ExecutedGraph graph;
  time.record = times_ms(repeats, [&] { graph = recorder.graph_of(loss); });
  OrderingPlan plan;
  time.plan = times_ms(repeats, [&] { plan = plan_order(graph); });
  volatile std::uint64_t fingerprint = 0;
  time.hash = times_ms(repeats, [&] { fingerprint = plan.fingerprint(0); });
  time.step = times_ms(1, [&] { forward().backward(); })[0];
  time.executed_nodes = graph.num_nodes;
  time.executed_edges = static_cast<std::uint32_t>(graph.edges.size());
  time.tensors = static_cast<std::uint32_t>(plan.tensors.size());
  time.buffers = plan.buffers.size();
  return time;
}

}  // namespace

std::vector<NetworkTime> time_networks(int repeats) {
  at::set_num_threads(1);  // threads that spin between operations would share the cores with what is timed
  std::vector<NetworkTime> times;
  for (const NetworkInfo& info : image_networks()) times.push_back(time_network(info, repeats));
  return times;
}

}  // namespace stretto::command
