#pragma once

#include <cstdint>

#include "stretto/predict/ordering/ordered_job.h"
#include "stretto/predict/ordering/ordering_scheme.h"
#include "stretto/predict/ordering/step_account.h"

namespace stretto {

/// The same as predict_ordered_steps(), thread by thread on simulated cores (simulate/core_pool.h): of each rank the
/// threads of the input pipeline, the one that schedules computation, and the background thread. What a spinning
/// thread takes from others is not a formula here but comes from who has a core when. Good for some hundred ranks.
/// `slice`: of the cores, in seconds. Requires: as there; one group of tensors.
OrderedSteps simulate_ordered_steps(const OrderedJob& job, const OrderingCosts& costs, OrderingScheme scheme, int steps,
                                    std::uint64_t seed, int warm_up = 10, double slice = 3e-3);

}  // namespace stretto
