#pragma once

#include "command/subcommand.h"

namespace stretto::command {

/// `stretto bench spin`: what ranks that wait in an allreduce cost the rank that computes.
int run_bench_spin(const Arguments& arguments);

}  // namespace stretto::command
