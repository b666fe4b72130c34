#pragma once

#include "command/cli/subcommand.h"

namespace stretto::command {

// The commands. Each takes the words behind its name and returns an exit code (cli/exit_code.h); guarded() turns what
// it throws into a line.

int run_bench(const Arguments& arguments);  ///< hands over to one of those below
int run_bench_allreduce(const Arguments& arguments);
int run_bench_limits(const Arguments& arguments);
int run_bench_overlap(const Arguments& arguments);
int run_bench_plot(const Arguments& arguments);
int run_bench_simulate(const Arguments& arguments);
int run_bench_skew(const Arguments& arguments);
int run_bench_spin(const Arguments& arguments);
int run_bench_tune(const Arguments& arguments);

int run_check(const Arguments& arguments);
int run_schedule(const Arguments& arguments);

int run_reproduce(const Arguments& arguments);  ///< hands over to one of those below
int run_fig9(const Arguments& arguments);
int run_idle(const Arguments& arguments);

// Of stretto-train: each takes the arguments of its namesake of `stretto`.
int run_train(const Arguments& arguments);
int run_compare(const Arguments& arguments);
int run_training_reproduction(const Arguments& arguments);

}  // namespace stretto::command
