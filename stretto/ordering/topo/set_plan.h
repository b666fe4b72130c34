#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/ordering/orderer/graph.h"
#include "stretto/ordering/topo/plan.h"

namespace stretto {

/// The graph that a rank has executed.
struct RankGraph {
  int rank = 0;         ///< of the job
  ExecutedGraph graph;  ///< all of its tensors are of one process set
};

/// The part of a plan that belongs to one process set, as its members follow it.
struct SetPlan {
  std::vector<std::vector<TensorDescription>> buffers;  ///< in order; an empty one behind them where it ends the step

  /// `several_sets`: the job has others, whose tensors may wait for the last buffer: an empty one ends the step.
  static SetPlan of(const OrderingPlan& plan, int set, bool several_sets);

  std::vector<std::byte> encode() const;  ///< as a message
  /// Errc::bad_input for anything but what encode() makes. `set`: of the tensors.
  static Result<SetPlan> decode(std::span<const std::byte> bytes, int set);
  friend bool operator==(const SetPlan&, const SetPlan&) = default;  ///< member by member
};

/// A graph as a message; its tensors are of one process set.
std::vector<std::byte> encode_graph(const ExecutedGraph& graph);
/// Errc::bad_input for anything but what encode_graph() makes.
Result<ExecutedGraph> decode_graph(std::span<const std::byte> bytes, int set);

/// The union of the ranks' graphs. A tensor waits for everything that it waits for in any of them. A tensor that a
/// rank's graph lacks waits for each tensor of that graph for which something waits there: that rank brings a null when
/// its step ends. Nodes that reduce tensors of one name are one; the other nodes are each graph's own. The first graph
/// numbers its nodes first.
ExecutedGraph union_of(std::span<const RankGraph> graphs);

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
