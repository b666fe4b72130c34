#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "command/cli/command_line.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/table.h"
#include "command/machine/machine.h"
#include "command/ordering/ordering_commands.h"
#include "command/ordering/timed_plans.h"

namespace stretto::command {

namespace {

void describe_options(CommandLine& line, OrderingPlanCommand& command) {
  line.heading("The measurement");
  line.option("--repeats", "N", "Of each graph; the median is shown. Default 21.",
              into(command.repeats, 1, 10000, "21"));
  line.flag("--networks", "",
            "Of the networks themselves, as modules of LibTorch: executes a step of each over two images, and measures "
            "what recording its graph costs, planning by it, and the hash by which ranks see that they have planned "
            "alike; all three as a share of 1,000 such steps. Agreeing sends nothing but the hash, with the words that "
            "close the first step. Takes some ten seconds and 2 GiB.",
            [&command](std::string_view, const std::string&) { command.networks = true; });
  command.output.add_option(line);
  line.example("stretto bench ordering-plan", "The nine networks of the paper, and graphs of up to a million nodes.");
  line.example("stretto bench ordering-plan --networks", "The same networks, as LibTorch executes them.");
  line.note(
      "In which order gradients are reduced, and which of them together, is planned once from the graph that a "
      "step has executed. The graphs are drawn: layers of a few nodes, with exactly as many nodes and edges as the "
      "paper counts "
      "(Pumma et al., CCGrid 2020, Table I) and as many tensors as the network has parameters. The paper's times are "
      "those of going through the graphs of TensorFlow on other machines; they grow with the size to the power of "
      "1.8.");
}

int run(const OrderingPlanCommand& command) {
  const std::vector<PlanTime> times = time_plans(command.repeats);
  Table table({"graph", "nodes", "edges", "tensors", "buffers", "paper, ms", "here, ms", "a node or edge, ns"});
  nlohmann::ordered_json json{{"plans", nlohmann::ordered_json::array()}};
  double growth = 0, before = 0;
  for (const PlanTime& time : times) {
    const double each = time.ms * 1e6 / (time.nodes + time.edges);
    table.add({time.name, std::to_string(time.nodes), std::to_string(time.edges), std::to_string(time.gradients),
               std::to_string(time.buffers), time.paper_ms > 0 ? significant(time.paper_ms, 4) : "–",
               significant(time.ms), significant(each)});
    nlohmann::ordered_json plan{{"graph", time.name},        {"nodes", time.nodes},     {"edges", time.edges},
                                {"tensors", time.gradients}, {"buffers", time.buffers}, {"ms", time.ms}};
    plan["paper_ms"] = time.paper_ms > 0 ? nlohmann::ordered_json(time.paper_ms) : nlohmann::ordered_json();
    json["plans"].push_back(std::move(plan));
    if (time.paper_ms == 0) {
      if (before > 0) growth = std::max(growth, time.ms / before);
      before = time.ms;
    }
  }
  json["growth"] = growth;
  json["machine"] = this_machine().to_json();
  command.output.say(
      fmt::format("{}\na graph twice as large takes at most {} times as long\n", table.to_text(), significant(growth)));
  command.output.emit(json);
  return kSuccess;
}

}  // namespace

Subcommand bench_ordering_plan_command(std::function<int(const OrderingPlanCommand&)> networks) {
  return make_command(
      {.name = "ordering-plan",
       .summary = "What it takes to plan the order in which gradients are reduced.",
       .introduction =
           "Measures what it takes to plan in which order the gradients of a step are reduced, and which of "
           "them together."},
      OrderingPlanCommand(), describe_options, [networks = std::move(networks)](const OrderingPlanCommand& command) {
        return command.networks ? networks(command) : run(command);
      });
}

}  // namespace stretto::command
