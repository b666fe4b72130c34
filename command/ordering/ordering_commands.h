#pragma once

#include <functional>
#include <vector>

#include "command/cli/output.h"
#include "command/cli/subcommand.h"

namespace stretto::command {

/// The options of `stretto bench ordering-plan`.
struct OrderingPlanCommand {
  int repeats = 21;
  bool networks = false;  ///< of modules of LibTorch, not drawn graphs
  Output output;
};

// The commands of the experiments on orders of gradients; none where STRETTO_PAPERS_ORDERING leaves them out.

/// The commands below `stretto bench`. `networks` is called in the place of `ordering-plan` where
/// OrderingPlanCommand::networks is set; it returns an exit code.
std::vector<Subcommand> ordering_benchmarks(std::function<int(const OrderingPlanCommand&)> networks);
/// The commands below `stretto reproduce`.
std::vector<Subcommand> ordering_reproductions();

// Each of them; there where they are not left out.
Subcommand bench_ordering_costs_command();
Subcommand bench_ordering_plan_command(std::function<int(const OrderingPlanCommand&)> networks);
Subcommand bench_oversleep_command();
Subcommand reproduce_ordering_command();

/// Of stretto-train: executes the forward pass of each of the paper's networks, and prints what recording, planning and
/// agreeing cost. Returns an exit code. Throws Failure (Errc::unavailable) where the experiments are left out.
int run_bench_networks(const OrderingPlanCommand& command);

}  // namespace stretto::command
