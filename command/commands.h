#pragma once

#include <functional>

#include "command/cli/subcommand.h"

namespace stretto::command {

// The commands that neither train nor speak of the others.

struct OrderingPlanCommand;  // command/bench/ordering/bench_ordering_plan.h

/// A group of those below; `networks` is bench_ordering_plan_command()'s.
Subcommand bench_command(std::function<int(const OrderingPlanCommand&)> networks);
Subcommand bench_allreduce_command();
Subcommand bench_limits_command();
Subcommand bench_link_command();
Subcommand bench_ordering_costs_command();
/// `networks` is called in the place of the command where OrderingPlanCommand::networks is set; it returns an exit
/// code.
Subcommand bench_ordering_plan_command(std::function<int(const OrderingPlanCommand&)> networks);
Subcommand bench_overlap_command();
Subcommand bench_oversleep_command();
Subcommand bench_plot_command();
Subcommand bench_simulate_command();
Subcommand bench_skew_command();
Subcommand bench_spin_command();
Subcommand bench_tune_command();

Subcommand check_command();
Subcommand schedule_command();

Subcommand predict_command();  ///< a group of those below
Subcommand predict_coarse_command();
Subcommand predict_fine_command();
Subcommand predict_fit_command();
Subcommand predict_run_command();
Subcommand advise_command();

Subcommand fig9_command();
Subcommand group_latency_command();
Subcommand idle_command();
Subcommand reproduce_ordering_command();

}  // namespace stretto::command
