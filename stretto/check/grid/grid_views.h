#pragma once

#include <vector>

#include "stretto/check/grid/grid_node.h"
#include "stretto/collective/groups/grid_layout.h"

namespace stretto {

/// Who is in a grid, one view after the other, and the lines of each, numbered on. A line keeps its number, and with it
/// all that its members have of it, as long as their list stays as it is.
class GridViews {
 public:
  /// The nodes from 0 on are in the first one.
  GridViews(int nodes, const GridOptions& options);

  /// The next view: without a node, whose place the last one takes, or with another one. False: there is no such grid.
  bool without(int node);
  bool with(int node);

  const std::vector<int>& nodes() const { return nodes_; }
  /// By number, the nodes of all lines there have been, in the order of their places.
  const std::vector<std::vector<int>>& lines() const { return lines_; }
  /// Where a node is; nothing: it is in no line.
  std::vector<GridNode::Place> places(int node) const;

 private:
  struct Present {
    int line, dimension;
  };
  bool lay_out(std::vector<int> nodes);

  const GridOptions options_;
  int side_ = 0;
  std::vector<int> nodes_;  // by place
  std::vector<std::vector<int>> lines_;
  std::vector<Present> present_;
};

}  // namespace stretto
