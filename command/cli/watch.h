#pragma once

#include <set>
#include <string>

#include "stretto/train/job/run.h"

namespace stretto::command {

/// Shows a run on standard error: a progress bar on a terminal, else plain lines; and the lines that its ranks tell,
/// each once. `told` holds the lines shown before; it must outlive the run.
RunHooks watched(const std::string& label, std::set<std::string>& told);

}  // namespace stretto::command
