#pragma once

#include <span>
#include <string>

#include "stretto/ordering/set_plan.h"

namespace stretto {

/// The plan that a rank has made of its own executed graph.
struct RankPlan {
  int rank = 0;  ///< of the job
  SetPlan plan;  ///< all of one process set
};

/// Whose plans differ from the first one, and the first tensor, in order of the plan, in which the first of them does:
/// "rank 2's graph differs from rank 0's, first at tensor x (float32, sum, 4 elements), which rank 0 does not have".
/// Empty where all are alike.
std::string plan_differences(std::span<const RankPlan> plans);

}  // namespace stretto
