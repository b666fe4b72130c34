#pragma once

#include <span>
#include <string>

#include "stretto/ordering/graph.h"
#include "stretto/ordering/plan.h"

namespace stretto {

/// What a rank has executed.
struct RankGraph {
  int rank = 0;         ///< of the job
  ExecutedGraph graph;  ///< all of its tensors are of one process set
};

/// Which graphs are planned otherwise than the first one, and the first tensor, in order of the plan, in which the
/// first of them differs: "rank 2's graph differs from rank 0's, first at tensor x (float32, sum, 4 elements), which
/// rank 0 does not have". Empty where all are planned alike. Throws UsageError as plan_order().
std::string graph_differences(std::span<const RankGraph> graphs, const FusionOptions& options);

}  // namespace stretto
