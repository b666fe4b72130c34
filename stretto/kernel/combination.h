#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/kernel/kernels.h"

namespace stretto {

/// The order in which n sources are combined into one: a postfix program, evaluated element by element. `k` pushes
/// source k; kCombine takes the two on top and pushes lower ⊕ upper, so that the lower rank comes first, which matters
/// for ±0 and NaN of min and max. Immutable; building it costs more than using it on few numbers, so keep it.
class Combination {
 public:
  static constexpr std::uint16_t kCombine = 0xffff;
  static constexpr int kMaxSources = 4096;
  static constexpr int kMaxIntermediates = 256;

  /// The tree that all reductions of fixed order use: 2i and 2i + 1 are folded for i < n − 2^⌊log2 n⌋, then what
  /// remains is combined at the distances 1, 2, 4, …
  static Combination tree(int n);
  /// ((s0 ⊕ s1) ⊕ s2) ⊕ …
  static Combination chain(int n);
  /// Throws UsageError if it does not leave exactly one value, or uses a source twice, or needs more than
  /// kMaxIntermediates at a time. Sources may come in any order, and some of those below num_sources() may be left out.
  explicit Combination(std::vector<std::uint16_t> program);

  /// The greatest source used plus one.
  int num_sources() const { return num_sources_; }
  std::span<const std::uint16_t> program() const { return program_; }

  // The program in larger steps, for combine().

  /// A source, or an intermediate value by its place plus kIntermediate; also where a step's result goes, if kResult.
  using Place = std::uint16_t;
  static constexpr Place kIntermediate = 0x8000;
  static constexpr Place kResult = 0xffff;
  /// No step has more operands.
  static constexpr int kMaxOperands = 8;

  struct Step {
    Kernels::Shape shape;
    Place into;
    std::uint16_t num_operands;
    std::uint16_t first_operand;
  };
  /// In this order; the last one's result is kResult. None where there is one source only.
  std::span<const Step> steps() const { return steps_; }
  std::span<const Place> operands_of(const Step& step) const {
    return {operands_.data() + step.first_operand, step.num_operands};
  }
  /// How many intermediate values exist at a time, at most.
  int num_intermediates() const { return num_intermediates_; }

 private:
  std::vector<std::uint16_t> program_;
  int num_sources_ = 0;
  int num_intermediates_ = 0;
  std::vector<Step> steps_;
  std::vector<Place> operands_;
};

/// The fixed tree over `ranks` ranks (docs/protocol.md, Bits) where some have brought nothing, which changes nothing,
/// and some more than one source, which are added first. `source_ranks`: whose each source is, ascending.
Combination fixed_tree(int ranks, std::span<const int> source_ranks);

}  // namespace stretto
