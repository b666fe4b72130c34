#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stretto/ordering/orderer/graph.h"

namespace stretto {

/// How tensors are put together.
struct FusionOptions {
  std::uint64_t fusion_bytes = 64 << 20;  ///< of a buffer at most; a larger tensor has its own. At least an element's
};

/// In which order the tensors of a step are reduced, and which of them together: a pure function of the executed graph,
/// so that ranks which executed the same need not agree on it (TOPO: Pumma et al., "Alleviating Load Imbalance in Data
/// Processing for Large-Scale Deep Learning", section IV-D).
///
/// A tensor's id is its place in the order of (depth in the graph, order of creation): parents come before children.
/// Buffers have numbers as they open. A tensor is in no buffer whose number is below that of a buffer with an ancestor
/// of it, through whatever computation and whatever process sets, and in none with an ancestor. So ranks that hand
/// buffers over by number, each when it is full, never wait in a circle.
struct OrderingPlan {
  struct Buffer {
    std::vector<std::uint32_t> tensors;  ///< ids, ascending; one process set, type and operation
    std::uint64_t bytes = 0;             ///< of all of them
  };

  std::vector<TensorDescription> tensors;  ///< by id
  std::vector<std::uint32_t> buffer_of;    ///< by id: a number of `buffers`
  std::vector<bool> awaited;               ///< by id: something that the step executed waits for the reduced tensor
  std::vector<Buffer> buffers;             ///< by number, of all process sets

  /// 64 bits that are equal where a set's buffers are: their order, the names and descriptions in them, and the end.
  std::uint64_t fingerprint(int set) const;
  /// Whether an empty buffer ends a step of the set, since something within the step waits for a tensor of its last
  /// buffer, or since it has none. Else the last buffer ends the step: it is issued when nothing more will be
  /// submitted.
  bool ends_by_mark(int set) const;
  /// A line for each buffer: "3: set 0, float32, sum, 12,345 bytes: conv2.weight, conv2.bias".
  std::string to_text() const;
};

/// Takes time in proportion to nodes and edges. Throws UsageError for a graph in which operations wait for one another
/// in a circle, and names them; for an edge or a collective of a node that there is not; for two collectives of one
/// node or of one name; and where not even an element fits into a buffer.
OrderingPlan plan_order(const ExecutedGraph& graph, const FusionOptions& options = {});

}  // namespace stretto
