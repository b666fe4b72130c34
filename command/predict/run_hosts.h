#pragma once

#include <string>

#include "command/predict/simulated_choice.h"

namespace stretto::command {

/// The hosts of a run that has been, as its folder tells. Ranks of real processes share the memory of a host, where
/// messages take next to no time; those of a simulated run had its network, and a model as large as it says. Throws
/// Failure for a folder without the config.json of a run.
SimulatedHosts hosts_of_run(const std::string& folder);

}  // namespace stretto::command
