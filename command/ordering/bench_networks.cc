#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "command/cli/exit_code.h"
#include "command/cli/table.h"
#include "command/machine/machine.h"
#include "command/ordering/ordering_commands.h"
#include "command/ordering/timed_networks.h"
#include "command/statistics/statistics.h"

namespace stretto::command {

namespace {

/// What recording, planning and hashing once are of a run of 1,000 steps.
double of_run(const NetworkTime& time) {
  return (median(time.record) + median(time.plan) + median(time.hash)) / (1000 * time.step);
}

}  // namespace

int run_bench_networks(const OrderingPlanCommand& command) {
  Table table({"network", "parameters", "autograd nodes", "edges", "executed nodes", "edges", "tensors", "buffers",
               "record, ms", "plan, ms", "hash, ms", "step, ms", "of 1,000 steps"});
  nlohmann::ordered_json json{{"networks", nlohmann::ordered_json::array()}};
  for (const NetworkTime& time : time_networks(command.repeats)) {
    table.add({time.name, std::to_string(time.parameters), std::to_string(time.nodes), std::to_string(time.edges),
               std::to_string(time.executed_nodes), std::to_string(time.executed_edges), std::to_string(time.tensors),
               std::to_string(time.buffers), significant(median(time.record)), significant(median(time.plan)),
               significant(median(time.hash)), significant(time.step), percent(of_run(time), 4)});
    json["networks"].push_back({{"network", time.name},
                                {"parameters", time.parameters},
                                {"nodes", time.nodes},
                                {"edges", time.edges},
                                {"executed_nodes", time.executed_nodes},
                                {"executed_edges", time.executed_edges},
                                {"tensors", time.tensors},
                                {"buffers", time.buffers},
                                {"record_ms", median(time.record)},
                                {"plan_ms", median(time.plan)},
                                {"hash_ms", median(time.hash)},
                                {"step_ms", time.step},
                                {"of_1000_steps", of_run(time)}});
  }
  json["machine"] = this_machine().to_json();
  command.output.say(table.to_text());
  command.output.emit(json);
  return kSuccess;
}

}  // namespace stretto::command
