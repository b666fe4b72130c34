#pragma once

#include "command/cli/subcommand.h"

namespace stretto::command {

/// Whether these arguments of `stretto compare` ask for a program of the user's own.
bool names_a_program(const Arguments& arguments);

/// stretto compare --program: runs somebody's program once for each algorithm and seed, and puts the reports of its
/// optimizers (stretto/train/loop/loop_report.h) into one table.
int run_compare_program(const Arguments& arguments);

}  // namespace stretto::command
