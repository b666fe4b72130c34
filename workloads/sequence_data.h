#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "workloads/dataset.h"

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

/// Labelled sequences of different length. A unit of work is one step of one sequence, padding included.
class SequenceDataset final : public Dataset {
 public:
  SequenceDataset(std::string_view workload, Sequences train, Sequences test)
      : Dataset(workload, train.lengths(), static_cast<std::uint32_t>(test.size()), train.labels),
        train_(std::move(train)),
        test_(std::move(test)) {}

  const Sequences& sequences(Split split) const { return split == Split::train ? train_ : test_; }

 private:
  const Sequences train_;
  const Sequences test_;
};

/// JapaneseVowels: nine speakers, 12 cepstral coefficients a frame, standardized. Source: Kudo, Toyama, Shimbo,
/// "Multidimensional curve classification using passing-through regions", 1999.
Result<std::shared_ptr<const Dataset>> load_vowels(const DatasetOptions& options);

/// PLAID: the current that appliances of eleven kinds draw, as standardized logarithmic spectra of frames of 40
/// samples, 21 numbers each. Source: Gao, Giri, Kara, Bergés, "PLAID: a public dataset of high-resolution electrical
/// appliance measurements for load identification research", 2014.
Result<std::shared_ptr<const Dataset>> load_plaid(const DatasetOptions& options);

}  // namespace stretto
