#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/base/data_type.h"

namespace stretto {

/// A tensor as the ranks that reduce it describe it, all alike.
struct TensorDescription {
  std::string name;                   ///< another one for each tensor of a step
  int set = 0;                        ///< of processes, which reduce it
  DataType type = DataType::float32;  ///< of an element
  std::uint64_t count = 0;            ///< elements
  ReduceOp op = ReduceOp::sum;        ///< by which it is reduced
  bool fuses = true;                  ///< with others into one buffer; only allreduces do
  friend bool operator==(const TensorDescription&, const TensorDescription&) = default;  ///< all are equal

  std::uint64_t bytes() const { return count * size_of(type); }  ///< of all elements
};

/// An executed training step, forward and backward pass, as plain data: operations, what each of them waits for, and
/// which of them hand a tensor to a collective.
struct ExecutedGraph {
  /// A node, numbered from 0 in the order of creation, which is the same on every rank.
  using Node = std::uint32_t;
  /// One operation waits for another.
  struct Edge {
    Node from = 0;  ///< ends
    Node to = 0;    ///< before this one begins
  };
  /// An operation hands a tensor to a collective.
  struct Collective {
    Node node = 0;             ///< its result is the reduced tensor; one collective a node
    TensorDescription tensor;  ///< that it reduces
  };

  Node num_nodes = 0;                   ///< operations
  std::vector<Edge> edges;              ///< in any order, perhaps twice
  std::vector<Collective> collectives;  ///< in any order
};

}  // namespace stretto
