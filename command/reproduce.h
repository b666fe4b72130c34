#pragma once

#include "command/subcommand.h"

namespace stretto::command {

/// `stretto reproduce NAME`: measurements of the papers, what they say beside what is measured here.
int run_reproduce(const Arguments& arguments);

}  // namespace stretto::command
