#pragma once

#include "command/subcommand.h"

namespace stretto::command {

/// `stretto reproduce fig9`: latency of partial allreduces under linear skew, beside Open MPI's (eager-SGD, Fig. 9).
int run_fig9(const Arguments& arguments);

}  // namespace stretto::command
