#include "stretto/collective/groups/grid_layout.h"

#include <algorithm>
#include <cstddef>

#include "stretto/base/error.h"
#include "stretto/base/grid_side.h"

namespace stretto {
namespace {

int side_of(int nodes, const GridOptions& options, int before) {
  if (options.shape == GridShape::paper) {
    int side = 1;
    while (side * side < nodes) ++side;
    return side;
  }
  if (options.rows > 0) return options.rows;
  if (options.dimensions == 1) return 1;
  return grid_side(nodes, options.dimensions, before);
}

void require(int nodes, const GridOptions& options) {
  const int d = options.dimensions;
  if (d < 1) throw UsageError(text("a grid of ", d, " dimensions; expected at least 1"));
  if (d > 30 || std::int64_t{1} << d > nodes) {
    throw UsageError(text("a grid of ", nodes, nodes == 1 ? " node" : " nodes", " in ", d,
                          d == 1 ? " dimension" : " dimensions", "; expected at least 2^", d, " nodes"));
  }
  if (options.shape == GridShape::paper && (d != 2 || options.rows != 0)) {
    throw UsageError("the paper's grid has two dimensions, and as many rows as columns: expected no others");
  }
  if (options.rows != 0 && d == 1) throw UsageError("rows of a grid of one dimension: expected none, it is one line");
  if (options.rows < 0 || (options.rows > 0 && grid_layer(options.rows, d, nodes) > nodes)) {
    throw UsageError(text(options.rows, " rows of a grid of ", nodes, " nodes in ", d,
                          " dimensions leave a row without a node; expected from 1 to ",
                          d == 2 ? nodes : grid_root(nodes, d)));
  }
}

}  // namespace

GridOptions GridOptions::fitting(int nodes) const {
  GridOptions out = *this;
  while (out.dimensions > 1 && (out.dimensions > 30 || std::int64_t{1} << out.dimensions > nodes)) {
    out = {.dimensions = out.dimensions - 1};
  }
  if (out.dimensions == 1 || (out.rows > 0 && grid_layer(out.rows, out.dimensions, nodes) > nodes)) out.rows = 0;
  return out;
}

GridLayout::GridLayout(int nodes, const GridOptions& options, int side_before)
    : nodes_(nodes), dimensions_(options.dimensions), shape_(options.shape) {
  require(nodes, options);
  side_ = side_of(nodes, options, side_before);
}

std::vector<int> GridLayout::digits(int place) const {
  if (shape_ == GridShape::paper) return {place % side_, (place % side_ + place / side_) % side_};
  std::vector<int> out;
  for (int digit = 1; digit < dimensions_; ++digit) {
    out.push_back(place % side_);
    place /= side_;
  }
  out.push_back(place);
  return out;
}

Partition GridLayout::partition(int dimension) const {
  const bool is_paper = shape_ == GridShape::paper;
  int weight = 1;  // of the digit
  for (int digit = 0; digit < dimension; ++digit) weight *= side_;
  Partition out;
  for (int place = 0; place < nodes_; ++place) {
    const std::vector<int> its = digits(place);
    out.push_back(is_paper ? its[dimension == 0 ? 1 : 0] : place - its[static_cast<std::size_t>(dimension)] * weight);
  }
  number_by_appearance(out);
  return out;
}

std::vector<int> GridLayout::line_of(int place, int dimension) const {
  std::vector<int> line;
  if (shape_ == GridShape::paper) {
    const std::size_t fixed = dimension == 0 ? 1 : 0;
    const int digit = digits(place)[fixed];
    for (int other = 0; other < nodes_; ++other) {
      if (digits(other)[fixed] == digit) line.push_back(other);
    }
    return line;
  }
  int weight = 1;  // of the digit
  for (int digit = 0; digit < dimension; ++digit) weight *= side_;
  const int most = dimension + 1 == dimensions_ ? nodes_ : side_;  // the last digit is open
  const int first = place - digits(place)[static_cast<std::size_t>(dimension)] * weight;
  for (int digit = 0; digit < most && first + digit * weight < nodes_; ++digit) line.push_back(first + digit * weight);
  return line;
}

int GridLayout::hops() const {
  std::vector<Partition> partitions;
  for (int dimension = 0; dimension < dimensions_; ++dimension) partitions.push_back(partition(dimension));
  Reach reach(nodes_);
  int hops = 0;
  for (; !reach.everywhere(); ++hops) {
    const bool grown = reach.exchange(partitions);
    STRETTO_CHECK(grown, "a grid whose parts are not connected: ", nodes_, " nodes");
  }
  return hops;
}

void GridLayout::require_elements(std::uint64_t elements) const {
  std::size_t longest = 0;
  for (int dimension = 0; dimension < dimensions_; ++dimension) {
    for (const auto& line : lines(dimension)) longest = std::max(longest, line.size());
  }
  if (longest <= elements) return;
  throw UsageError(text("a model of ", elements, " elements in a line of ", longest,
                        " nodes, of which each averages a slice; expected at least ", longest));
}

}  // namespace stretto
