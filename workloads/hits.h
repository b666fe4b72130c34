#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace stretto {

/// How many classes come before class `label` by their scores for one sample. Of equal scores that of the smaller
/// number comes first. A score that is not a number comes before all others, and behind all if it is the label's own: a
/// model that has diverged is right nowhere. Requires: label < scores.size().
std::size_t place_of(std::span<const float> scores, std::size_t label);

/// Counts the samples that a classifier is right about: with its first guess, and with one of its first five.
class Hits {
 public:
  /// Where there are no more than five classes, five guesses say nothing, and top5() is none.
  explicit Hits(std::size_t classes) : classes_(classes) {}

  /// `scores`: of each class for each sample, sample by sample. `labels`: a class for each sample.
  void add(std::span<const float> scores, std::span<const std::int64_t> labels);

  double accuracy() const { return share(first_); }  ///< the share that is right at the first guess
  std::optional<double> top5() const;                ///< the share of which one of five guesses is right

 private:
  double share(std::uint64_t hits) const { return static_cast<double>(hits) / static_cast<double>(samples_); }

  const std::size_t classes_;
  std::uint64_t samples_ = 0;
  std::uint64_t first_ = 0;
  std::uint64_t first_five_ = 0;
};

}  // namespace stretto
