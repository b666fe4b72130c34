#pragma once

#include "command/cli/output.h"

namespace stretto::command {

/// The options of `stretto bench ordering-plan`.
struct OrderingPlanCommand {
  int repeats = 21;
  bool networks = false;  ///< of modules of LibTorch, not drawn graphs
  Output output;
};

/// Executes the forward pass of each of the paper's networks, and prints what recording, planning and agreeing cost.
int run_bench_networks(const OrderingPlanCommand& command);

}  // namespace stretto::command
