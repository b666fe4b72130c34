#pragma once

#include "command/predict/simulated_choice.h"
#include "stretto/predict/shape/shape_simulation.h"

namespace stretto::command {

/// The durations of the exchanges of a choice with a shape, over the network of `hosts`. The algorithm itself says so,
/// in some steps on the virtual clock: so what a message takes, and how many there are, is known in one place.
ExchangeCosts exchange_costs(const Choice& choice, const ShapedChoice& shaped, int ranks, const SimulatedHosts& hosts);

/// A network, as --network has it, whose bandwidth is such that a synchronous exchange of a model of so many bytes
/// takes `seconds` among so many ranks; the rest of it is the default. At most 1 TB/s.
std::string network_of_exchange(double seconds, int ranks, std::uint64_t model_bytes);

}  // namespace stretto::command
