#pragma once

#include "command/cli/subcommand.h"

namespace stretto::command {

/// `stretto compare --program`: runs somebody's program once for each algorithm and seed, and puts the reports of its
/// optimizers (stretto/train/loop/loop_report.h) into one table.
Subcommand compare_program_command();
/// `stretto compare FILE.py:FUNCTION`: the same for a function of Python, which trains by stretto.Optimizer.
Subcommand compare_function_command();

}  // namespace stretto::command
