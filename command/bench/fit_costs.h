#pragma once

#include <span>

#include "stretto/collective/allreduce/allreduce_choice.h"

namespace stretto::command {

/// One way to do one allreduce, and how long a call took.
struct MeasuredCall {
  AllreduceChoice::Way way = AllreduceChoice::Way::gather;
  AllreduceTask task;
  double microseconds = 0;
};

/// The costs with which predicted_us() comes closest: non-negative least squares of the relative errors. A cost that
/// none of the calls has keeps its default. Requires: a call at least, each of which took some time.
AllreduceCosts fit_costs(std::span<const MeasuredCall> calls);

}  // namespace stretto::command
