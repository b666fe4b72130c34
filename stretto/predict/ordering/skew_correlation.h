#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace stretto {

/// How alike the skew of ranks is from one synchronization to later ones: skew is a rank's arrival minus the mean of
/// all. Near 1 where a rank that comes late goes on to come late (the cascade), near 0 where each has its own reasons.
class SkewCorrelation {
 public:
  static constexpr std::size_t kLags = 8;

  explicit SkewCorrelation(std::size_t ranks);
  /// The next synchronization. Requires: a value for each rank.
  void add(std::span<const double> arrivals);
  /// Over all ranks and synchronizations: Σ x(k) x(k + lag) / Σ x². Lags 1 … kLags; NaN where there were too few.
  std::array<double, kLags> at_lags() const;
  /// Seconds: the mean, over the synchronizations, of the last arrival minus the mean arrival.
  double mean_of_last() const { return seen_ == 0 ? 0 : last_ / static_cast<double>(seen_); }

 private:
  const std::size_t ranks_;
  std::vector<std::vector<double>> recent_;  // of the last kLags + 1, as a ring
  std::array<double, kLags> products_{};     // by lag
  std::array<double, kLags> squares_{};      // of the same pairs: geometric mean of both
  std::array<double, kLags> later_squares_{};
  std::array<double, kLags + 1> own_{};  // Σ x² of each in the ring
  std::size_t seen_ = 0;
  double last_ = 0;
};

}  // namespace stretto
