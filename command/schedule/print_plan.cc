#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command/cli/exit_code.h"
#include "command/cli/table.h"
#include "command/cli/values.h"
#include "command/schedule/schedule_plan.h"
#include "command/train/torch_workload.h"
#include "stretto/base/clock.h"
#include "stretto/ordering/topo/plan.h"
#include "workloads/dataset.h"

namespace stretto::command {

namespace {

std::string names_in(const OrderingPlan& plan, const OrderingPlan::Buffer& buffer) {
  std::string names;
  for (const std::uint32_t id : buffer.tensors) names += (names.empty() ? "" : ", ") + plan.tensors[id].name;
  return names;
}

std::string table_of(const OrderingPlan& plan) {
  Table table({"buffer", "type", "tensors", "bytes", "names"});
  for (std::size_t number = 0; number < plan.buffers.size(); ++number) {
    const OrderingPlan::Buffer& buffer = plan.buffers[number];
    table.add({std::to_string(number), std::string(name_of(plan.tensors[buffer.tensors.front()].type)),
               std::to_string(buffer.tensors.size()), std::to_string(buffer.bytes), names_in(plan, buffer)});
  }
  return table.to_text();
}

nlohmann::ordered_json json_of(const OrderingPlan& plan) {
  auto buffers = nlohmann::ordered_json::array();
  for (const OrderingPlan::Buffer& buffer : plan.buffers) {
    const TensorDescription& first = plan.tensors[buffer.tensors.front()];
    auto tensors = nlohmann::ordered_json::array();
    for (const std::uint32_t id : buffer.tensors) {
      tensors.push_back({{"name", plan.tensors[id].name}, {"count", plan.tensors[id].count}});
    }
    buffers.push_back({{"set", first.set},
                       {"type", name_of(first.type)},
                       {"op", name_of(first.op)},
                       {"bytes", buffer.bytes},
                       {"tensors", std::move(tensors)}});
  }
  return buffers;
}

}  // namespace

int run_schedule_plan(const SchedulePlanCommand& command) {
  const auto data = load_dataset(command.workload, {.seed = command.seed}).or_throw();
  const int batch = command.batch == 0 ? data->info().batch : command.batch;
  const ExecutedGraph graph = executed_graph(data, batch, command.seed, command.step);
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  const OrderingPlan plan = plan_order(graph, {.fusion_bytes = command.fusion_bytes});
  const double planning = seconds(clock.now() - begin);
  command.output.say(
      fmt::format("step {} of {}: {} operations, {} dependencies, {} tensors in {} buffers of at most {}\n\n{}",
                  command.step, command.workload, graph.num_nodes, graph.edges.size(), plan.tensors.size(),
                  plan.buffers.size(), to_bytes(command.fusion_bytes), table_of(plan)));
  command.output.emit({{"workload", command.workload},
                       {"step", command.step},
                       {"fusion_bytes", command.fusion_bytes},
                       {"nodes", graph.num_nodes},
                       {"edges", graph.edges.size()},
                       {"tensors", plan.tensors.size()},
                       {"planning_seconds", planning},
                       {"fingerprint", fmt::format("{:016x}", plan.fingerprint(0))},
                       {"buffers", json_of(plan)}});
  return kSuccess;
}

}  // namespace stretto::command
