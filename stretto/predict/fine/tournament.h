#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace stretto {

/// The earliest of a fixed number of moments, of which one changes at a time. Each has a slot; a change takes as many
/// comparisons as the number of slots has bits, and nothing moves, as it would in a heap.
class Tournament {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// All moments are kNever. Requires: slots > 0.
  explicit Tournament(std::size_t slots);

  /// The moment of `slot`, in seconds. Of two at the same time the one of lower `order` is the earlier.
  void set(std::size_t slot, double time, std::uint64_t order);
  void clear(std::size_t slot) { set(slot, kNever, 0); }

  /// The slot of the earliest moment, and that moment; kNever: there is none.
  std::size_t first() const { return winners_[1]; }
  double time() const { return moments_[first()].time; }

 private:
  struct Moment {
    double time = kNever;
    std::uint64_t order = 0;
  };

  std::size_t winner(std::size_t node) const { return node < leaves_ ? winners_[node] : node - leaves_; }

  std::size_t leaves_;  // a power of two
  std::vector<Moment> moments_;
  std::vector<std::uint32_t> winners_;  // of the inner nodes of a binary tree, the root at 1
};

}  // namespace stretto
