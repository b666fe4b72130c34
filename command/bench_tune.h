#pragma once

#include "command/subcommand.h"

namespace stretto::command {

/// `stretto bench tune`: fits what the choice of an allreduce knows about the machine.
int run_bench_tune(const Arguments& arguments);

}  // namespace stretto::command
