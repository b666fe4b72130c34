#pragma once

#include "command/cli/subcommand.h"

namespace stretto::command {

// The commands that neither train nor speak of the others.

Subcommand bench_allreduce_command();
Subcommand bench_grid_command();
Subcommand bench_limits_command();
Subcommand bench_link_command();
Subcommand bench_overlap_command();
Subcommand bench_plot_command();
Subcommand bench_simulate_command();
Subcommand bench_skew_command();
Subcommand bench_spin_command();
Subcommand bench_tune_command();

Subcommand check_command();
/// `stretto report RUN…`: a page for a browser that shows what happened in runs.
Subcommand report_command();
/// `stretto run --ranks N -- PROGRAM`: starts ranks of any program.
Subcommand run_command();
Subcommand join_command();
Subcommand members_command();
Subcommand leave_command();
Subcommand schedule_command();
/// `stretto schedule grid`: the lines of an elastic grid, in place of a collective.
Subcommand schedule_grid_command();

Subcommand predict_coarse_command();
Subcommand predict_fine_command();
Subcommand predict_fit_command();
Subcommand predict_run_command();
Subcommand advise_command();

Subcommand fig9_command();
Subcommand group_latency_command();
Subcommand idle_command();

/// The program that trains, by the texts of `texts`: `train`, `compare`, `reproduce`, `profile`. Its user types
/// `texts.name`.
Subcommand training_program(Subcommand texts);
/// dispatch() of such a program. A pipe that nobody reads any more, as of `stretto train 2>&1 | head`, does not end a
/// run that has a folder to write to: what could not be printed is said at the end, and by the exit status.
int dispatch_training(const Subcommand& program, const Arguments& arguments);

}  // namespace stretto::command
