#include "stretto/kernel/combination.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"

namespace stretto {

namespace {

constexpr std::uint16_t kCombine = Combination::kCombine;

std::string parenthesized(const std::string& a, const std::string& b) {
  return "(" + a + " " + b + ")";
}

/// The expression that the program computes: "((0 1) 2)".
std::string meaning(const Combination& combination) {
  std::vector<std::string> stack;
  for (const auto word : combination.program()) {
    if (word != kCombine) {
      stack.push_back(std::to_string(word));
      continue;
    }
    const auto upper = stack.back();
    stack.pop_back();
    stack.back() = parenthesized(stack.back(), upper);
  }
  return stack.back();
}

std::string tree_of(const std::vector<std::string>& operands, std::size_t begin, std::size_t end) {
  if (end - begin == 1) return operands[begin];
  const std::size_t middle = (begin + end) / 2;
  return parenthesized(tree_of(operands, begin, middle), tree_of(operands, middle, end));
}

/// The expression that its steps compute. Fails if a step reads a place before it was written, or two values share a
/// place.
std::string meaning_of_steps(const Combination& combination) {
  if (combination.steps().empty()) return std::to_string(combination.program().front());
  std::vector<std::string> intermediates(static_cast<std::size_t>(combination.num_intermediates()));
  for (const auto& step : combination.steps()) {
    std::vector<std::string> operands;
    for (const auto place : combination.operands_of(step)) {
      if (place < Combination::kIntermediate) {
        operands.push_back(std::to_string(place));
        continue;
      }
      auto& value = intermediates.at(place - Combination::kIntermediate);
      EXPECT_FALSE(value.empty());
      operands.push_back(std::exchange(value, ""));
    }
    std::string result = operands[0];
    if (step.shape == Kernels::Shape::chain) {
      for (std::size_t i = 1; i < operands.size(); ++i) result = parenthesized(result, operands[i]);
    } else {
      const std::size_t expected = step.shape == Kernels::Shape::pair ? 2 : step.shape == Kernels::Shape::tree4 ? 4 : 8;
      EXPECT_EQ(operands.size(), expected);
      result = tree_of(operands, 0, operands.size());
    }
    EXPECT_LE(operands.size(), static_cast<std::size_t>(Combination::kMaxOperands));
    if (&step == &combination.steps().back()) {
      EXPECT_EQ(step.into, Combination::kResult);
      return result;
    }
    auto& place = intermediates.at(step.into - Combination::kIntermediate);
    EXPECT_TRUE(place.empty());
    place = result;
  }
  return "";
}

TEST(Combination, TreeFoldsFirstAndThenDoublesDistances) {
  for (int n = 1; n <= 300; n = n < 70 ? n + 1 : n * 2 - 7) {
    int power = 1;
    while (2 * power <= n) power *= 2;
    std::vector<std::string> values;
    for (int i = 0; i < n - power; ++i) {
      values.push_back(parenthesized(std::to_string(2 * i), std::to_string(2 * i + 1)));
    }
    for (int i = 2 * (n - power); i < n; ++i) values.push_back(std::to_string(i));
    for (; values.size() > 1; values.resize(values.size() / 2)) {
      for (std::size_t i = 0; i < values.size() / 2; ++i) values[i] = parenthesized(values[2 * i], values[2 * i + 1]);
    }
    const auto tree = Combination::tree(n);
    EXPECT_EQ(tree.num_sources(), n);
    EXPECT_EQ(meaning(tree), values[0]);
    EXPECT_EQ(meaning_of_steps(tree), values[0]);
  }
}

TEST(Combination, ChainTakesOneAfterTheOther) {
  EXPECT_EQ(meaning(Combination::chain(1)), "0");
  EXPECT_EQ(meaning(Combination::chain(4)), "(((0 1) 2) 3)");
  for (int n = 1; n <= 100; ++n) {
    const auto chain = Combination::chain(n);
    EXPECT_EQ(chain.num_sources(), n);
    EXPECT_EQ(meaning_of_steps(chain), meaning(chain));
  }
}

TEST(Combination, TreesAndChainsTakeFewSteps) {
  EXPECT_EQ(Combination::tree(1).steps().size(), 0u);
  EXPECT_EQ(Combination::tree(8).steps().size(), 1u);
  EXPECT_EQ(Combination::tree(32).steps().size(), 5u);
  EXPECT_EQ(Combination::tree(33).steps().size(), 6u);
  EXPECT_EQ(Combination::chain(8).steps().size(), 1u);
  EXPECT_EQ(Combination::chain(15).steps().size(), 2u);
  EXPECT_LE(Combination::tree(Combination::kMaxSources).num_intermediates(), 32);
}

/// A random program over the sources first … first + n − 1, in random order.
void write_random(Random& random, int n, std::vector<std::uint16_t>& sources, std::vector<std::uint16_t>& program) {
  if (n == 1) {
    const auto at = static_cast<std::ptrdiff_t>(random.below(sources.size()));
    program.push_back(sources[static_cast<std::size_t>(at)]);
    sources.erase(sources.begin() + at);
    return;
  }
  // Halves, chains from the left or from the right, or anything.
  const std::uint64_t kind = random.below(4);
  const int lower = kind == 0 ? n / 2 : kind == 1 ? n - 1 : kind == 2 ? 1 : static_cast<int>(random.between(1, n - 1));
  write_random(random, lower, sources, program);
  write_random(random, n - lower, sources, program);
  program.push_back(kCombine);
}

TEST(Combination, StepsMeanWhatAnyProgramSays) {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const int n = static_cast<int>(random.log_uniform(1, 200));
    std::vector<std::uint16_t> sources, program;
    for (int k = 0; k < n; ++k) sources.push_back(static_cast<std::uint16_t>(k));
    write_random(random, n, sources, program);
    const Combination combination(program);
    ASSERT_EQ(combination.num_sources(), n);
    ASSERT_EQ(meaning_of_steps(combination), meaning(combination));
  }
}

TEST(Combination, LeavesOutSources) {
  const Combination combination({7, 2, kCombine});
  EXPECT_EQ(combination.num_sources(), 8);
  EXPECT_EQ(meaning_of_steps(combination), "(7 2)");
}

TEST(Combination, RefusesProgramsThatAreNone) {
  using Program = std::vector<std::uint16_t>;
  EXPECT_THROW(Combination(Program{}), UsageError);
  EXPECT_THROW(Combination(Program{kCombine}), UsageError);
  EXPECT_THROW(Combination(Program{0, kCombine}), UsageError);
  EXPECT_THROW(Combination(Program{0, 1}), UsageError);
  EXPECT_THROW(Combination(Program{0, 1, kCombine, kCombine}), UsageError);
  EXPECT_THROW(Combination(Program{0, 0, kCombine}), UsageError);
  EXPECT_THROW(Combination(Program{Combination::kMaxSources}), UsageError);
  EXPECT_THROW(Combination::tree(0), UsageError);
  EXPECT_THROW(Combination::tree(Combination::kMaxSources + 1), UsageError);
  EXPECT_THROW(Combination::chain(-1), UsageError);
}

TEST(Combination, RefusesTooManyIntermediateValues) {
  // Half of the pairs wait for those to their right.
  constexpr int kPairs = 2 * Combination::kMaxIntermediates + 4;
  std::vector<std::uint16_t> program;
  for (int i = 0; i < 2 * kPairs; i += 2) {
    program.insert(program.end(), {static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(i + 1), kCombine});
  }
  program.insert(program.end(), kPairs - 1, kCombine);
  EXPECT_THROW(Combination{program}, UsageError);
}

using Value = std::optional<std::string>;

Value join(const Value& lower, const Value& upper) {
  if (!lower || !upper) return lower ? lower : upper;
  return parenthesized(*lower, *upper);
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
