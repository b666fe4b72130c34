#pragma once

#include "stretto/collective/schedules/allreduce_schedule.h"

namespace stretto {

/// For tests: all of them.
inline constexpr AllreduceAlgorithm kAlgorithms[] = {AllreduceAlgorithm::recursive_doubling,
                                                     AllreduceAlgorithm::halving_doubling, AllreduceAlgorithm::direct};

}  // namespace stretto
