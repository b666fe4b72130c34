#include "command/schedule/schedule_plan.h"

#include <utility>

#include "command/cli/command_line.h"
#include "stretto/base/words.h"
#include "workloads/catalogue.h"

namespace stretto::command {

namespace {

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const WorkloadInfo& info : workload_catalogue()) names.emplace_back(info.name);
  return names;
}

void describe_options(CommandLine& line, SchedulePlanCommand& command) {
  line.positional("WORKLOAD", CommandLine::Presence::required, "Whose model: " + join(workload_names()) + ".",
                  one_of(command.workload, workload_names()));
  line.heading("The plan");
  line.option("--ordering", "ORDERING",
              "topo, which alone plans: an order of all tensors of a step. Not --order, the order in which one "
              "collective adds what ranks bring.",
              one_of(command.ordering, {"topo"}));
  line.option("--fusion-bytes", "BYTES",
              "Of a buffer at most; a larger tensor has its own. Larger buffers are fewer, and begin later. Default "
              "64MiB.",
              [&command](std::string_view option, const std::string& text) {
                command.fusion_bytes = parse_bytes(option, text, "64MiB");
              });
  line.heading("The step");
  line.option("--step", "N", "Which one, from 1: its graph may differ from that of others. Default 1.",
              into(command.step, 1, 1'000'000, "1"));
  line.option("--batch", "N", "Samples of its batch. Default: the workload's.", into(command.batch, 1, 1'000'000, "8"));
  line.option("--seed", "N", "Of model and data. Default 1.", into(command.seed, 0, "1"));
  command.output.add_option(line);
  line.example("stretto schedule plan resnet-small", "Its buffers, with the sums of its batch normalization.");
  line.example("stretto schedule --ordering topo resnet-small", "The same.");
  line.example("stretto schedule plan digits-wide --fusion-bytes 256KiB", "Where its gradients are cut.");
  line.example("stretto schedule plan branches --step 10 --json", "The plan of a step that uses its second head.");
  line.note(
      "One rank executes the step, forward and backward pass, and the plan is made of the graph that autograd has "
      "recorded. Buffers are reduced by number, on every rank. docs/lab/ordering.md says how they are chosen.");
}

}  // namespace

Subcommand schedule_plan_command(std::function<int(const SchedulePlanCommand&)> run) {
  return make_command(
      {.name = "schedule",
       .summary = "Prints in which order a workload's gradients are reduced, and which of them together.",
       .introduction = "Prints the plan by which ranks reduce the tensors of a step of training: its fused buffers in "
                       "order, and the tensors of each.",
       .with = "plan",
       .or_with = "--ordering"},
      SchedulePlanCommand(), describe_options, std::move(run));
}

}  // namespace stretto::command
