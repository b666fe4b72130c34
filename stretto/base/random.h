#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace stretto {

/// 64 random bits that are a pure function of (seed, stream, index): Philox 4×32-10, so that every rank,
/// language run and replay draws the same, in any order.
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// A sequence of draws from one (seed, stream). Not thread-safe; copy it to fork it.
/// The distributions are our own arithmetic, since the standard library's differ by implementation.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  std::uint64_t bits() { return random_bits(seed_, stream_, index_++); }
  /// In [0, n), without bias worth measuring. Requires: n > 0.
  std::uint64_t below(std::uint64_t n);
  /// In [low, high], both ends included.
  std::int64_t between(std::int64_t low, std::int64_t high);
  /// In [0, 1).
  double uniform();
  /// Standard normal (Box–Muller; two draws each).
  double normal();
  /// Log-normal with the given mean and standard deviation of the variable itself. Requires: mean > 0.
  double log_normal(double mean, double deviation);
  /// In [low, high], uniform in the logarithm. Requires: 0 < low ≤ high.
  std::uint64_t log_uniform(std::uint64_t low, std::uint64_t high);
  bool chance(double probability) { return uniform() < probability; }

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t index_ = 0;
};

/// Every order of `range` is as likely (Fisher and Yates).
template <class Range>
void shuffle(Range& range, Random random) {
  for (std::size_t left = range.size(); left > 1; --left) {
    std::swap(range[left - 1], range[static_cast<std::size_t>(random.below(left))]);
  }
}

}  // namespace stretto
