#pragma once

#include "command/subcommand.h"

namespace stretto::command {

/// `stretto bench skew`: latency of allreduces that ranks come to one after the other, by who may start them.
int run_bench_skew(const Arguments& arguments);

}  // namespace stretto::command
