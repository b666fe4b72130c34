#pragma once

#include <functional>

#include "command/cli/output.h"
#include "command/cli/subcommand.h"

namespace stretto::command {

/// The options of `stretto bench ordering-plan`.
struct OrderingPlanCommand {
  int repeats = 21;
  bool networks = false;  ///< of modules of LibTorch, not drawn graphs
  Output output;
};

/// `networks` is called in the place of the command where OrderingPlanCommand::networks is set; it returns an exit
/// code.
Subcommand bench_ordering_plan_command(std::function<int(const OrderingPlanCommand&)> networks);

/// Executes the forward pass of each of the paper's networks, and prints what recording, planning and agreeing cost.
int run_bench_networks(const OrderingPlanCommand& command);

}  // namespace stretto::command
