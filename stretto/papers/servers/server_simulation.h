#pragma once

#include "stretto/papers/servers/server_options.h"
#include "stretto/predict/shape/rank_steps.h"

namespace stretto {

/// PushShape::simulate of `workers` ranks with servers.
Applied simulate_servers(const ServerOptions& options, RankSteps& steps, int workers, const ShapeJob& job);

}  // namespace stretto
