#pragma once

#include <functional>
#include <set>
#include <string>

#include "stretto/train/job/run.h"

namespace stretto::command {

/// Shows a run on standard error: a progress bar on a terminal, else plain lines; and the lines that its ranks tell,
/// each once. `told` holds the lines shown before; it must outlive the run. `predicted`: the rate to show beside the
/// measured one, in batches/s; 0 as long as there is none.
RunHooks watched(const std::string& label, std::set<std::string>& told, std::function<double()> predicted = {});

}  // namespace stretto::command
