#pragma once

#include "command/cli/subcommand.h"

namespace stretto::command {

/// `stretto report RUN…`: a page for a browser that shows what happened in runs.
Subcommand report_command();

}  // namespace stretto::command
