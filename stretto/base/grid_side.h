#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace stretto {

/// The places of a grid with the same last digit: side^(dimensions − 1), or the first power above `nodes`.
inline std::int64_t grid_layer(int side, int dimensions, int nodes) {
  std::int64_t out = 1;
  for (int digit = 1; digit < dimensions && out <= nodes; ++digit) out *= side;
  return out;
}

/// The d-th root of the nodes, rounded; less where the other digits alone had more values.
inline int grid_root(int nodes, int dimensions) {
  const auto is_below = [&](double root) { return std::pow(root, dimensions) <= nodes; };
  int root = 1;
  while (is_below(root + 0.5)) ++root;
  while (grid_layer(root, dimensions, nodes) > nodes) --root;
  return root;
}

/// How many values the digits of a grid have but the last one (GridLayout): of two dimensions its rows. As many as
/// `before` a change of nodes, where the last digit has about as many; else the root. `before` 0: there was no grid.
inline int grid_side(int nodes, int dimensions, int before) {
  if (before > 0) {
    const std::int64_t layer = grid_layer(before, dimensions, nodes);
    if (layer <= nodes && std::abs((nodes + layer - 1) / layer - before) <= 1) return before;
  }
  return grid_root(nodes, dimensions);
}

}  // namespace stretto
