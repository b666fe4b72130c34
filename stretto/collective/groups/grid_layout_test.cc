#include "stretto/collective/groups/grid_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "stretto/base/error.h"
#include "stretto/base/random.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using Lines = std::vector<std::vector<int>>;

constexpr GridOptions kPaper{.shape = GridShape::paper};

TEST(GridLayout, OfFiveAndTenNodesByHand) {
  // 0 2 4
  // 1 3
  const GridLayout five(5);
  EXPECT_EQ(five.side(), 2);
  EXPECT_EQ(five.lines(0), (Lines{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(five.lines(1), (Lines{{0, 2, 4}, {1, 3}}));
  // 0 3 6 9
  // 1 4 7
  // 2 5 8
  const GridLayout ten(10);
  EXPECT_EQ(ten.lines(0), (Lines{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9}}));
  EXPECT_EQ(ten.lines(1), (Lines{{0, 3, 6, 9}, {1, 4, 7}, {2, 5, 8}}));
  EXPECT_THAT(ten.digits(7), ElementsAre(1, 2));
  // 0 3 ·
  // · 1 4
  // · · 2
  const GridLayout five_of_paper(5, kPaper);
  EXPECT_EQ(five_of_paper.lines(0), (Lines{{0}, {1, 3}, {2, 4}}));
  EXPECT_EQ(five_of_paper.lines(1), (Lines{{0, 3}, {1, 4}, {2}}));
  EXPECT_EQ(five_of_paper.hops(), 4);
  // 0 4 8 ·
  // · 1 5 9
  // · · 2 6
  // 7 · · 3
  const GridLayout ten_of_paper(10, kPaper);
  EXPECT_EQ(ten_of_paper.lines(0), (Lines{{0, 7}, {1, 4}, {2, 5, 8}, {3, 6, 9}}));
  EXPECT_EQ(ten_of_paper.lines(1), (Lines{{0, 4, 8}, {1, 5, 9}, {2, 6}, {3, 7}}));
}

TEST(GridLayout, OfEightNodesInThreeDimensionsIsACube) {
  const GridLayout cube(8, {.dimensions = 3});
  EXPECT_EQ(cube.lines(0), (Lines{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(cube.lines(1), (Lines{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(cube.lines(2), (Lines{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_THAT(cube.digits(6), ElementsAre(0, 1, 1));
}

TEST(GridLayout, OfOneDimensionOrOneRowIsOneLine) {
  std::vector<int> all(7);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(GridLayout(7, {.dimensions = 1}).lines(0), Lines{all});
  EXPECT_EQ(GridLayout(7, {.dimensions = 1}).hops(), 1);
  EXPECT_EQ(GridLayout(7, {.rows = 1}).lines(1), Lines{all});
  EXPECT_EQ(GridLayout(7, {.rows = 1}).lines(0).size(), 7u);
  EXPECT_EQ(GridLayout(7, {.rows = 7}).lines(0), Lines{all});
}

TEST(GridLayout, TheLineOfAPlaceIsOneOfThePartition) {
  for (const int nodes : {2, 3, 5, 7, 10, 16, 33, 100}) {
    std::vector<GridOptions> all{kPaper};
    for (int d = 1; 1 << d <= nodes; ++d) all.push_back({.dimensions = d});
    for (const int rows : {1, 2, nodes}) all.push_back({.rows = rows});
    for (const GridOptions& options : all) {
      if (options.fitting(nodes).dimensions != options.dimensions) continue;
      const GridLayout layout(nodes, options);
      for (int dimension = 0; dimension < layout.dimensions(); ++dimension) {
        const Lines lines = layout.lines(dimension);
        const Partition partition = layout.partition(dimension);
        for (int place = 0; place < nodes; ++place) {
          const auto line = static_cast<std::size_t>(partition[static_cast<std::size_t>(place)]);
          EXPECT_EQ(layout.line_of(place, dimension), lines[line]) << nodes << " nodes, place " << place;
        }
      }
    }
  }
}

TEST(GridLayout, HasAsManyHopsAsDimensions) {
  for (int nodes = 4; nodes <= 1000; ++nodes) {
    const GridLayout layout(nodes);
    EXPECT_LE(layout.hops(), 2) << nodes << " nodes";
    const int columns = (nodes + layout.side() - 1) / layout.side();
    EXPECT_LE(std::abs(columns - layout.side()), 1) << nodes << " nodes";
  }
  for (int dimensions = 3; dimensions <= 9; ++dimensions) {
    for (int nodes = 1 << dimensions; nodes <= 600; nodes += dimensions) {
      EXPECT_LE(GridLayout(nodes, {.dimensions = dimensions}).hops(), dimensions) << nodes << " nodes";
    }
  }
}

TEST(GridLayout, OfThePaperHasLinesThatDifferByOne) {
  int most_hops = 0;
  for (int nodes = 4; nodes <= 400; ++nodes) {
    const GridLayout layout(nodes, kPaper);
    most_hops = std::max(most_hops, layout.hops());
    for (int dimension = 0; dimension < 2; ++dimension) {
      std::vector<std::size_t> sizes;
      for (const auto& line : layout.lines(dimension)) sizes.push_back(line.size());
      const auto [least, most] = std::ranges::minmax(sizes);
      EXPECT_LE(most - least, 1u) << nodes << " nodes";
      EXPECT_EQ(sizes.size(), static_cast<std::size_t>(layout.side())) << nodes << " nodes";
    }
  }
  EXPECT_EQ(most_hops, 4);
}

/// Of each place of a layout, that of another one with the same digits; −1: there is none.
std::vector<int> same_digits(const GridLayout& from, const GridLayout& to) {
  std::vector<int> out;
  for (int place = 0; place < from.nodes(); ++place) {
    int found = -1;
    for (int other = 0; other < to.nodes(); ++other) {
      if (from.digits(place) == to.digits(other)) found = other;
    }
    out.push_back(found);
  }
  return out;
}

TEST(GridLayout, BothShapesHaveTheSameLinesOfASquareUpToNumbering) {
  for (int side = 2; side <= 12; ++side) {
    const GridLayout rectangle(side * side), paper(side * side, kPaper);
    const std::vector<int> renumbered = same_digits(paper, rectangle);
    for (int dimension = 0; dimension < 2; ++dimension) {
      std::set<std::vector<int>> expected, lines;
      for (const auto& line : rectangle.lines(dimension)) expected.insert(line);
      for (auto line : paper.lines(dimension)) {
        for (int& place : line) place = renumbered[static_cast<std::size_t>(place)];
        std::ranges::sort(line);
        lines.insert(line);
      }
      EXPECT_EQ(lines, expected) << side << " rows";
    }
  }
}

/// Nodes in their places, as they come and go.
struct Placed {
  std::vector<int> by_place;
  GridLayout layout;
  int next;

  explicit Placed(int nodes) : by_place(static_cast<std::size_t>(nodes)), layout(nodes), next(nodes) {
    std::iota(by_place.begin(), by_place.end(), 0);
  }
  void change(Random& random, bool comes) {
    if (comes) {
      by_place.push_back(next++);
    } else {
      by_place[random.below(by_place.size())] = by_place.back();
      by_place.pop_back();
    }
    layout = GridLayout(static_cast<int>(by_place.size()), {}, layout.side());
  }
  std::set<std::set<int>> lines() const {
    std::set<std::set<int>> out;
    for (int dimension = 0; dimension < 2; ++dimension) {
      for (const auto& line : layout.lines(dimension)) {
        std::set<int> nodes;
        for (const int place : line) nodes.insert(by_place[static_cast<std::size_t>(place)]);
        out.insert(nodes);
      }
    }
    return out;
  }
};

TEST(GridLayout, AChangeMovesOneNodeAndLeavesMostLines) {
  Random random(1);
  Placed grid(48);
  constexpr int kChanges = 4000;
  double changed = 0, all = 0;
  int reshaped = 0;
  for (int i = 0; i < kChanges; ++i) {
    const Placed before = grid;
    const auto nodes = grid.by_place.size();
    grid.change(random, nodes == 8 || (nodes < 90 && random.chance(0.5)));
    const auto now = grid.lines(), then = before.lines();
    all += static_cast<double>(now.size());
    changed += static_cast<double>(std::ranges::count_if(now, [&](const auto& line) { return !then.contains(line); }));
    if (grid.layout.side() != before.layout.side()) {
      ++reshaped;
      continue;
    }
    int moved = 0;
    for (std::size_t place = 0; place < grid.by_place.size(); ++place) {
      const bool stays = place < nodes && before.by_place[place] == grid.by_place[place];
      if (!stays && grid.by_place[place] < before.next) ++moved;
    }
    EXPECT_LE(moved, 1);
  }
  RecordProperty("lines", std::to_string(all / kChanges));
  EXPECT_LE(changed / kChanges, 3.2) << "of " << all / kChanges;
  EXPECT_GT(reshaped, 0);
  EXPECT_LT(reshaped, kChanges / 20);
}

TEST(GridLayout, KeepsItsSideWhileItFits) {
  EXPECT_EQ(GridLayout(12, {}, 3).side(), 3) << "of 4 columns";
  EXPECT_EQ(GridLayout(13, {}, 3).side(), 4) << "of 5 columns";
  EXPECT_EQ(GridLayout(9, {}, 4).side(), 4) << "of 3 columns";
  EXPECT_EQ(GridLayout(8, {}, 4).side(), 3) << "of 2 columns";
  EXPECT_EQ(GridLayout(100, {.rows = 4}, 10).side(), 4) << "whose rows are fixed";
}

void expect_refused(int nodes, const GridOptions& options, const std::string& words) {
  try {
    const GridLayout layout(nodes, options);
    ADD_FAILURE() << nodes << " nodes: not refused, side " << layout.side();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(words));
  }
}

TEST(GridLayout, RefusesWhatDoesNotFit) {
  expect_refused(5, {.dimensions = 0}, "0 dimensions");
  expect_refused(7, {.dimensions = 3}, "7 nodes in 3 dimensions; expected at least 2^3");
  expect_refused(1, {.dimensions = 1}, "1 node in 1 dimension");
  expect_refused(5, {.rows = 6}, "6 rows of a grid of 5 nodes");
  expect_refused(5, {.rows = -1}, "-1 rows");
  expect_refused(20, {.dimensions = 3, .rows = 5}, "5 rows of a grid of 20 nodes in 3 dimensions leave a row without");
  expect_refused(5, {.dimensions = 1, .rows = 2}, "one line");
  expect_refused(9, {.shape = GridShape::paper, .rows = 3}, "as many rows as columns");
  expect_refused(9, {.shape = GridShape::paper, .dimensions = 3}, "two dimensions");
  EXPECT_NO_THROW(GridLayout(10).require_elements(4));
  EXPECT_THROW(GridLayout(10).require_elements(3), UsageError);
}

}  // namespace
}  // namespace stretto
