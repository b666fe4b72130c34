#pragma once

#include <string>

#include "command/subcommand.h"

namespace stretto::command {

/// `stretto schedule`: prints the schedules of a collective.
int run_schedule(const Arguments& arguments);

}  // namespace stretto::command
