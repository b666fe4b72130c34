#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "workloads/dataset.h"

namespace stretto {

/// Images of handwritten digits, 8×8 grey values between 0 and 1. A unit of work is an image.
class DigitsDataset final : public Dataset {
 public:
  static constexpr int kPixels = 64;
  static constexpr int kClasses = 10;

  struct Images {
    std::vector<float> pixels;         ///< [image][pixel]
    std::vector<std::int64_t> labels;  ///< 0 … 9
  };

  DigitsDataset(std::string_view workload, Images train, Images test)
      : Dataset(workload, std::vector<std::uint32_t>(train.labels.size(), 1),
                static_cast<std::uint32_t>(test.labels.size()), train.labels),
        train_(std::move(train)),
        test_(std::move(test)) {}

  const Images& images(Split split) const { return split == Split::train ? train_ : test_; }

 private:
  const Images train_;
  const Images test_;
};

/// The 1,797 images that scikit-learn bundles; every fifth one is a test image (the file is sorted by writer, so a
/// split in two halves would test on hands that were never seen). Source: Alpaydin, Kaynak, "Optical recognition of
/// handwritten digits", 1998. `workload` trains with them.
Result<std::shared_ptr<const Dataset>> load_digits(std::string_view workload, const DatasetOptions& options);

}  // namespace stretto
