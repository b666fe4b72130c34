#pragma once

#include <cstdint>

#include "stretto/predict/ordering/ordered_job.h"
#include "stretto/predict/ordering/ordering_scheme.h"
#include "stretto/predict/ordering/step_account.h"

namespace stretto {

/// Steps of a job, by recurrences over arrays with an entry a rank: without events, hence for any number of ranks (S
/// synchronizations of P ranks take P · S operations). docs/lab/ordering_costs.md, "At scale", has the recurrences. To
/// the bit by `seed`; the pauses of the undisturbed computation are the same for all schemes. The first `warm_up` steps
/// are not returned. Requires: ranks, cores, steps ≥ 1; at least one group.
OrderedSteps predict_ordered_steps(const OrderedJob& job, const OrderingCosts& costs, OrderingScheme scheme, int steps,
                                   std::uint64_t seed, int warm_up = 10);

}  // namespace stretto
