#pragma once

#include "command/subcommand.h"

namespace stretto::command {

/// `stretto bench`: our collectives beside other libraries'.
int run_bench(const Arguments& arguments);

}  // namespace stretto::command
