#pragma once

#include "command/predict/simulated_choice.h"

namespace stretto::command {

/// For tests: a network that takes little of a step.
inline const SimulatedHosts kFastHosts{.network = "latency=1us,bandwidth=100GB/s", .model_bytes = 4096};

}  // namespace stretto::command
