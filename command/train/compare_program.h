#pragma once

#include "command/cli/subcommand.h"

namespace stretto::command {

/// Puts behind the `compare` of a program what compares training of one's own, once for each algorithm and seed, and
/// puts the reports of its optimizers (stretto/train/loop/loop_report.h) into one table: `compare --program PROGRAM`,
/// and `compare FILE.py:FUNCTION` for a function of Python that trains by stretto.Optimizer.
void add_comparisons_of_own(Subcommand& program);

}  // namespace stretto::command
