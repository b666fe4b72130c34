#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "command/cli/output.h"
#include "command/cli/subcommand.h"

namespace stretto::command {

/// The options of `stretto schedule plan`.
struct SchedulePlanCommand {
  std::string workload;
  std::string ordering = "topo";
  std::uint64_t fusion_bytes = 64 << 20;
  int batch = 0;  ///< 0: the workload's
  int step = 1;   ///< whose graph it is, from 1
  std::uint64_t seed = 1;
  Output output;
};

/// The other `schedule`, `schedule plan` or `schedule --ordering topo`: of a workload's tensors, not of one collective.
/// `run` gets its options,
/// checked as far as possible without Torch; it returns an exit code.
Subcommand schedule_plan_command(std::function<int(const SchedulePlanCommand&)> run);

/// The same with Torch: executes the step on one rank, plans by its graph, and prints the plan.
int run_schedule_plan(const SchedulePlanCommand& command);

}  // namespace stretto::command
