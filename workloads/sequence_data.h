#pragma once

#include <memory>

#include "workloads/dataset.h"
#include "workloads/sequences.h"

namespace stretto {

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
