#pragma once

#include "command/predict/simulated_choice.h"
#include "stretto/predict/shape/shape_simulation.h"

namespace stretto::command {

/// What the exchanges of a choice with a shape take over the network of `hosts`. The algorithm itself says so, in some
/// steps on the virtual clock: so what a message takes, and how many there are, is known in one place.
ExchangeCosts exchange_costs(const Choice& choice, const ShapedChoice& shaped, int ranks, const SimulatedHosts& hosts);

}  // namespace stretto::command
