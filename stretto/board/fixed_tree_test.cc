#include "stretto/board/fixed_tree.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace stretto {
namespace {

using Value = std::optional<std::string>;

Value join(const Value& lower, const Value& upper) {
  if (!lower || !upper) return lower ? lower : upper;
  return "(" + *lower + " " + *upper + ")";
}

std::string meaning(const Combination& combination) {
  std::vector<Value> stack;
  for (const auto word : combination.program()) {
    if (word != Combination::kCombine) {
      stack.push_back(std::to_string(word));
      continue;
    }
    const Value upper = stack.back();
    stack.pop_back();
    stack.back() = join(stack.back(), upper);
  }
  return *stack.back();
}

/// The tree of docs/protocol.md, Bits.
Value naive(std::vector<Value> ranks) {
  std::size_t power = 1;
  while (2 * power <= ranks.size()) power *= 2;
  const std::size_t folded = ranks.size() - power;
  std::vector<Value> values;
  for (std::size_t i = 0; i < folded; ++i) values.push_back(join(ranks[2 * i], ranks[2 * i + 1]));
  for (std::size_t i = 2 * folded; i < ranks.size(); ++i) values.push_back(ranks[i]);
  for (std::size_t distance = 1; distance < power; distance *= 2) {
    for (std::size_t i = 0; i < power; i += 2 * distance) values[i] = join(values[i], values[i + distance]);
  }
  return values[0];
}

/// Every rank with no, one or two sources, in every combination.
TEST(FixedTree, IsTheOneOfAllRanksWithoutThoseThatBringNothing) {
  int trees = 0;
  for (int ranks = 1; ranks <= 7; ++ranks) {
    int cases = 1;
    for (int i = 0; i < ranks; ++i) cases *= 3;
    for (int code = 1; code < cases; ++code) {
      std::vector<int> sources;
      std::vector<Value> values;
      for (int rank = 0, rest = code; rank < ranks; ++rank, rest /= 3) {
        Value value;
        for (int i = 0; i < rest % 3; ++i) {
          value = join(value, std::to_string(sources.size()));
          sources.push_back(rank);
        }
        values.push_back(value);
      }
      ASSERT_EQ(meaning(fixed_tree(ranks, sources)), *naive(values)) << ranks << " ranks, case " << code;
      ++trees;
    }
  }
  EXPECT_EQ(trees, 3 + 9 + 27 + 81 + 243 + 729 + 2187 - 7);
}

TEST(FixedTree, OfAllRanksIsTheTreeOfAllReductions) {
  for (int ranks = 1; ranks <= 100; ++ranks) {
    std::vector<int> sources;
    for (int rank = 0; rank < ranks; ++rank) sources.push_back(rank);
    const auto tree = fixed_tree(ranks, sources);
    ASSERT_EQ(meaning(tree), meaning(Combination::tree(ranks)));
  }
}

}  // namespace
}  // namespace stretto
