#pragma once

#include <cstdint>
#include <vector>

#include "stretto/collective/groups/partition.h"

namespace stretto {

enum class GridShape : std::uint8_t {
  rectangle,  ///< nodes fill one column after the other (of d digits, by the last one): d hops between any two
  paper,      ///< ⌈√n⌉ rows and columns, the diagonal first: lines differ by one node at most; up to four hops
};

struct GridOptions {
  GridShape shape = GridShape::rectangle;
  int dimensions = 2;  ///< d; more have shorter lines, of fewer bytes in fewer messages, and take more hops
  int rows = 0;        ///< of a rectangle; 1: one line of all. 0: about the d-th root of the nodes

  /// As much of them as so many nodes, two or more, can have: of too few for a dimension the usual grid of fewer.
  GridOptions fitting(int nodes) const;
};

/// Which nodes of an elastic grid are in a line with each other (Peng, "Scalable, Efficient Deep Learning by Means of
/// Elastic Averaging", UCB/EECS-2018-77, sections 2.1 and 6.1.1): a function of the options, the number of nodes and
/// the side of the layout before, so that every node knows every line without a message.
///
/// A node's *place* is its number, from 0. Its digits are to the base of the side, the last one open: of two dimensions
/// row s mod r and column ⌊s/r⌋; of `paper` row s mod q and column (row + ⌊s/q⌋) mod q. A *line* of a dimension is the
/// places that differ in this digit alone.
///
/// Who leaves is replaced by the node of the last place, and who comes takes the next one: then a change moves one node
/// at most, unless the side changes. Fixed after construction.
class GridLayout {
 public:
  /// `side_before`: side() of the layout before a change of nodes; 0: there was none. It stays where the last digit has
  /// about as many values. Throws UsageError unless 1 ≤ d, 2^d ≤ nodes, and every row has a node.
  explicit GridLayout(int nodes, const GridOptions& options = {}, int side_before = 0);

  int nodes() const { return nodes_; }  ///< n
  int dimensions() const { return dimensions_; }
  int side() const { return side_; }  ///< of two dimensions: the rows

  /// The digits of a place. Requires: 0 ≤ place < nodes().
  std::vector<int> digits(int place) const;
  /// The number of each place's line of a dimension, in the order of their lowest places. O(n).
  Partition partition(int dimension) const;
  /// The lines of a dimension, each ascending, those of a single node among them. O(n).
  std::vector<std::vector<int>> lines(int dimension) const { return groups_of(partition(dimension)); }
  /// That of a place, itself among them. O(its nodes); of `paper` O(n). Requires: 0 ≤ place < nodes().
  std::vector<int> line_of(int place, int dimension) const;

  /// The longest of the shortest paths between two places, where those of a line are neighbours. O(n²).
  int hops() const;
  /// Throws UsageError unless each node of the longest line has an element of a model of so many.
  void require_elements(std::uint64_t elements) const;

 private:
  int nodes_;
  int dimensions_;
  GridShape shape_;
  int side_ = 1;
};

}  // namespace stretto
