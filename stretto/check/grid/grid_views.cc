#include "stretto/check/grid/grid_views.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {

GridViews::GridViews(int nodes, const GridOptions& options) : options_(options) {
  std::vector<int> first(static_cast<std::size_t>(nodes));
  std::iota(first.begin(), first.end(), 0);
  STRETTO_CHECK(lay_out(std::move(first)), "a grid of ", nodes, " nodes");
}

bool GridViews::lay_out(std::vector<int> nodes) {
  const auto count = static_cast<int>(nodes.size());
  if (count < 2 || 1 << options_.dimensions > count) return false;
  const GridLayout layout(count, options_, side_);
  side_ = layout.side();
  nodes_ = std::move(nodes);
  const std::vector<Present> before = std::exchange(present_, {});
  for (int dimension = 0; dimension < layout.dimensions(); ++dimension) {
    for (std::vector<int>& line : layout.lines(dimension)) {
      if (line.size() == 1) continue;
      for (int& place : line) place = nodes_[static_cast<std::size_t>(place)];
      const auto same = std::ranges::find_if(before, [&](const Present& last) {
        return last.dimension == dimension && lines_[static_cast<std::size_t>(last.line)] == line;
      });
      present_.push_back({same == before.end() ? static_cast<int>(lines_.size()) : same->line, dimension});
      if (same == before.end()) lines_.push_back(std::move(line));
    }
  }
  return true;
}

bool GridViews::without(int node) {
  std::vector<int> nodes = nodes_;
  *std::ranges::find(nodes, node) = nodes.back();
  nodes.pop_back();
  return lay_out(std::move(nodes));
}

bool GridViews::with(int node) {
  std::vector<int> nodes = nodes_;
  nodes.push_back(node);
  return lay_out(std::move(nodes));
}

std::vector<GridNode::Place> GridViews::places(int node) const {
  std::vector<GridNode::Place> out;
  for (const auto& [line, dimension] : present_) {
    const std::vector<int>& members = lines_[static_cast<std::size_t>(line)];
    const auto found = std::ranges::find(members, node);
    if (found != members.end()) out.push_back({line, dimension, static_cast<int>(found - members.begin()), members});
  }
  return out;
}

}  // namespace stretto
