#pragma once

#include <set>
#include <string>

#include "stretto/train/run.h"

namespace stretto::command {

/// Shows a run on standard error: a progress bar on a terminal, else plain lines; and what its ranks have to tell, but
/// for what was told before. `told` must outlive the run.
RunHooks watched(const std::string& label, std::set<std::string>& told);

}  // namespace stretto::command
