#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stretto {

/// Labelled sequences of different length, each step a vector of `channels` numbers, one after the other in memory.
struct Sequences {
  int channels = 0;
  int classes = 0;
  std::vector<float> values;            ///< [sequence][step][channel]
  std::vector<std::size_t> offsets{0};  ///< size() + 1 of them: the first step of each sequence, counted over all
  std::vector<std::int64_t> labels;     ///< 0 … classes−1

  std::size_t size() const { return labels.size(); }
  std::size_t num_steps() const { return offsets.back(); }
  std::uint32_t length(std::size_t i) const { return static_cast<std::uint32_t>(offsets[i + 1] - offsets[i]); }
  std::vector<std::uint32_t> lengths() const;

  /// The steps of sequence i, length(i) × channels numbers.
  std::span<const float> sequence(std::size_t i) const {
    const auto width = static_cast<std::size_t>(channels);
    return {values.data() + offsets[i] * width, length(i) * width};
  }
};

/// Shifts and scales every channel so that the steps of `train` have mean 0 and deviation 1 in it; `test` likewise,
/// by the numbers of `train`. A channel that is constant in `train` becomes 0 there.
void standardize(Sequences& train, Sequences& test);

/// Cuts every sequence of one channel into frames of `frame` steps, the last one filled up with zeros, and returns
/// log(|spectrum|/frame + floor) of each: frame/2 + 1 channels. Requires: one channel, frame > 0, floor > 0.
Sequences log_spectra(const Sequences& waves, int frame, double floor);

}  // namespace stretto
