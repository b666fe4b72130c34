#include "stretto/kernel/combination.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {

namespace {

using Place = Combination::Place;
using Shape = Kernels::Shape;

void check_num_sources(int n) {
  if (n < 1 || n > Combination::kMaxSources) {
    throw UsageError(
        text("a combination of ", n, " sources; from 1 to ", Combination::kMaxSources, " can be combined"));
  }
}

struct Node {
  int lower = -1, upper = -1;  ///< both −1: a source
  Place source = 0;
  int levels = 0;  ///< so many levels from here down are perfect: no source among them
};

/// A program as a binary tree; nodes are numbered as they are computed.
struct Expression {
  std::vector<Node> nodes;
  int num_sources = 0;

  explicit Expression(std::span<const std::uint16_t> program) {
    std::vector<int> stack;
    std::vector<bool> used(Combination::kMaxSources);
    for (const std::uint16_t word : program) {
      Node node;
      if (word == Combination::kCombine) {
        if (stack.size() < 2) throw UsageError("a combination combines two values where there are fewer");
        node.upper = stack.back();
        stack.pop_back();
        node.lower = stack.back();
        stack.pop_back();
        node.levels = 1 + std::min(at(node.lower).levels, at(node.upper).levels);
      } else {
        check_num_sources(word + 1);
        if (used[word]) throw UsageError(text("a combination uses source ", word, " twice"));
        used[word] = true;
        node.source = word;
        num_sources = std::max(num_sources, word + 1);
      }
      stack.push_back(static_cast<int>(nodes.size()));
      nodes.push_back(node);
    }
    if (stack.size() != 1) throw UsageError(text("a combination leaves ", stack.size(), " values; expected 1"));
  }

  const Node& at(int node) const { return nodes[static_cast<std::size_t>(node)]; }
  int root() const { return static_cast<int>(nodes.size()) - 1; }
};

/// Turns an expression into steps: perfect subtrees three levels at a time, from the leaves, the rest as chains.
class Planner {
 public:
  Planner(const Expression& expression, std::vector<Combination::Step>& steps, std::vector<Place>& operands)
      : expression_(expression), steps_(steps), operands_(operands) {}

  void plan() {
    if (expression_.nodes.size() == 1) return;
    place_of(expression_.root());
    steps_.back().into = Combination::kResult;
  }
  int num_intermediates() const { return static_cast<int>(in_use_.size()); }

 private:
  /// Where the node's value lies once the steps so far have run.
  Place place_of(int node) {
    const Node& n = expression_.at(node);
    if (n.levels == 0) return n.source;
    return n.levels == 1 ? chain(node) : perfect_tree(node, (n.levels - 1) % 3 + 1);
  }

  Place perfect_tree(int node, int levels) {
    std::vector<int> row{node};
    for (; levels > 0; --levels) {
      std::vector<int> below;
      for (const int i : row) {
        below.push_back(expression_.at(i).lower);
        below.push_back(expression_.at(i).upper);
      }
      row = std::move(below);
    }
    std::vector<Place> places;
    for (const int i : row) places.push_back(place_of(i));
    return step(row.size() == 2 ? Shape::pair : row.size() == 4 ? Shape::tree4 : Shape::tree8, places);
  }

  Place chain(int node) {
    std::vector<int> links;  // from the last to the first
    for (; expression_.at(node).levels == 1; node = expression_.at(node).lower) {
      links.push_back(expression_.at(node).upper);
    }
    std::vector<Place> places{place_of(node)};
    for (; !links.empty(); links.pop_back()) {
      if (places.size() == Combination::kMaxOperands) places = {step(Shape::chain, places)};
      places.push_back(place_of(links.back()));
    }
    return step(places.size() == 2 ? Shape::pair : Shape::chain, places);
  }

  /// Its result may take the place of an operand: kernels read before they write.
  Place step(Shape shape, const std::vector<Place>& places) {
    for (const Place place : places) {
      if (place >= Combination::kIntermediate) in_use_[place - Combination::kIntermediate] = false;
    }
    const auto free = std::find(in_use_.begin(), in_use_.end(), false);
    const auto into = static_cast<Place>(Combination::kIntermediate + (free - in_use_.begin()));
    if (free == in_use_.end()) {
      in_use_.push_back(true);
    } else {
      *free = true;
    }
    steps_.push_back(
        {shape, into, static_cast<std::uint16_t>(places.size()), static_cast<std::uint16_t>(operands_.size())});
    operands_.insert(operands_.end(), places.begin(), places.end());
    return into;
  }

  const Expression& expression_;
  std::vector<Combination::Step>& steps_;
  std::vector<Place>& operands_;
  std::vector<bool> in_use_;
};

void write_tree(int first_leaf, int num_leaves, int num_folded, std::vector<std::uint16_t>& program) {
  if (num_leaves > 1) {
    write_tree(first_leaf, num_leaves / 2, num_folded, program);
    write_tree(first_leaf + num_leaves / 2, num_leaves / 2, num_folded, program);
    program.push_back(Combination::kCombine);
  } else if (first_leaf < num_folded) {
    const auto source = static_cast<std::uint16_t>(2 * first_leaf);
    program.push_back(source);
    program.push_back(static_cast<std::uint16_t>(source + 1));
    program.push_back(Combination::kCombine);
  } else {
    program.push_back(static_cast<std::uint16_t>(first_leaf + num_folded));
  }
}

}  // namespace

Combination Combination::tree(int n) {
  check_num_sources(n);
  const int num_leaves = static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
  std::vector<std::uint16_t> program;
  write_tree(0, num_leaves, n - num_leaves, program);
  return Combination(std::move(program));
}

Combination Combination::chain(int n) {
  check_num_sources(n);
  std::vector<std::uint16_t> program{0};
  for (int i = 1; i < n; ++i) {
    program.push_back(static_cast<std::uint16_t>(i));
    program.push_back(kCombine);
  }
  return Combination(std::move(program));
}

Combination::Combination(std::vector<std::uint16_t> program) : program_(std::move(program)) {
  const Expression expression(program_);
  num_sources_ = expression.num_sources;
  Planner planner(expression, steps_, operands_);
  planner.plan();
  num_intermediates_ = planner.num_intermediates();
  if (num_intermediates_ > kMaxIntermediates) {
    throw UsageError(text("a combination keeps ", num_intermediates_, " intermediate values at a time; at most ",
                          kMaxIntermediates, " fit"));
  }
}

namespace {

class Builder {
 public:
  Builder(int ranks, std::span<const int> source_ranks)
      : sources_(source_ranks),
        leaves_(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))),
        folded_(ranks - leaves_) {}

  std::vector<std::uint16_t> build() {
    node(0, leaves_);
    return std::move(program_);
  }

 private:
  bool node(int begin, int end) {
    if (end - begin > 1) return both(begin, (begin + end) / 2, end);
    if (begin >= folded_) return rank(begin + folded_);
    const bool lower = rank(2 * begin);
    return join(lower, rank(2 * begin + 1));
  }

  bool both(int begin, int middle, int end) {
    const bool lower = node(begin, middle);
    return join(lower, node(middle, end));
  }

  /// Sources of a rank follow one another, and ranks are asked for in ascending order.
  bool rank(int rank) {
    int count = 0;
    for (; next_ < sources_.size() && sources_[next_] == rank; ++next_, ++count) {
      program_.push_back(static_cast<std::uint16_t>(next_));
      if (count > 0) program_.push_back(Combination::kCombine);
    }
    return count > 0;
  }

  bool join(bool lower, bool upper) {
    if (lower && upper) program_.push_back(Combination::kCombine);
    return lower || upper;
  }

  const std::span<const int> sources_;
  const int leaves_;
  const int folded_;
  std::size_t next_ = 0;
  std::vector<std::uint16_t> program_;
};

}  // namespace

Combination fixed_tree(int ranks, std::span<const int> source_ranks) {
  return Combination(Builder(ranks, source_ranks).build());
}

}  // namespace stretto
