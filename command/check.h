#pragma once

#include "command/subcommand.h"

namespace stretto::command {

/// `stretto check`: searches for a violation of what a partial allreduce promises, in simulation.
int run_check(const Arguments& arguments);

}  // namespace stretto::command
