#pragma once

#include "command/subcommand.h"

namespace stretto::command {

/// `stretto bench limits`: what this machine can do at most.
int run_bench_limits(const Arguments& arguments);

}  // namespace stretto::command
