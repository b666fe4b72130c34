#pragma once

#include "command/subcommand.h"

namespace stretto::command {

/// `stretto bench overlap`: how much of the communication disappears behind computation.
int run_bench_overlap(const Arguments& arguments);

}  // namespace stretto::command
