#pragma once

#include <string>

#include "stretto/train/run.h"

namespace stretto::command {

/// Shows a run on standard error: a progress bar on a terminal, else plain lines; and what its ranks have to tell.
RunHooks watched(const std::string& label);

}  // namespace stretto::command
