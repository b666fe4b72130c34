#pragma once

#include <cstdint>

#include "command/predict/trial.h"

namespace stretto::command {

/// √(τ (P − Q)) / P: where each round of P ranks takes the gradients of at least Q, and no gradient comes more than τ
/// rounds late, the learning rate has to fall, and the steps grow, by no more than a factor in proportion to this
/// (Theorem 6.3 of the eager-SGD paper, PPoPP 2020). 0: as synchronous training.
double quorum_bound(int ranks, int quorum, std::uint64_t tau);

/// Of how many ranks a round takes the gradients at least; 0 where rounds take models, or there are none. Throws
/// UsageError for a choice that does not fit so many ranks.
int quorum_of(const Choice& choice, int ranks);

/// The bound of a trial, with the oldest gradient that was seen for τ; NaN where quorum_of() is 0.
double quorum_bound(const Trial& trial, int ranks);

}  // namespace stretto::command
