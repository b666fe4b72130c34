#include "stretto/board/fixed_tree.h"

#include <bit>
#include <cstdint>
#include <vector>

namespace stretto {
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
