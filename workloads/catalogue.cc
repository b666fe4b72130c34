#include "workloads/catalogue.h"

#include <algorithm>
#include <array>
#include <string>

#include "stretto/base/error.h"

namespace stretto {
namespace {

// Learning rates are for the average over eight ranks, and small enough for gradients that come up to three rounds late
// (docs/workloads.md has the measurements).
constexpr std::array<WorkloadInfo, 8> kCatalogue{{
    {
        .name = "branches",
        .description = "the images of digits, a perceptron whose second head is used in every tenth step alone",
        .unit = "image",
        .needs = "scikit-learn (1,438 training and 359 test images)",
        .batch = 8,
        .lr = 0.05,
        .momentum = 0.9,
        .epochs = 40,
        .bucketed = false,
        .classifies = true,
    },
    {
        .name = "digits",
        .description =
            "8×8 images of handwritten digits, a perceptron with one hidden layer: every step costs the same",
        .unit = "image",
        .needs = "scikit-learn (1,438 training and 359 test images)",
        .batch = 8,
        .lr = 0.05,
        .momentum = 0.9,
        .epochs = 40,
        .bucketed = false,
        .classifies = true,
    },
    {
        .name = "digits-conv",
        .description = "the same images, a small network of two convolutions, as AlexNet's",
        .unit = "image",
        .needs = "scikit-learn (1,438 training and 359 test images)",
        .batch = 8,
        .lr = 0.05,
        .momentum = 0.9,
        .epochs = 20,
        .bucketed = false,
        .classifies = true,
    },
    {
        .name = "digits-wide",
        .description =
            "the same images, a perceptron with three hidden layers and 324,490 parameters: a megabyte to send",
        .unit = "image",
        .needs = "scikit-learn (1,438 training and 359 test images)",
        .batch = 8,
        .lr = 0.02,
        .momentum = 0.9,
        .epochs = 40,
        .bucketed = false,
        .classifies = true,
    },
    {
        .name = "hyperplane",
        .description = "linear regression in 8,192 dimensions with noise, 8,193 parameters: every step costs the same",
        .unit = "row",
        .needs = "nothing; 32,768 training and 4,096 test points are generated from the seed (288 MiB)",
        .batch = 256,
        .lr = 0.02,
        .momentum = 0,
        .epochs = 48,
        .bucketed = false,
        .classifies = false,
    },
    {
        .name = "plaid",
        .description =
            "which appliance draws this current: an LSTM over 3 to 34 spectra a series, naturally imbalanced",
        .unit = "padded time step",
        .needs = "sktime 1.2.0 (PLAID: 537 training and 537 test series)",
        .batch = 4,
        .lr = 0.1,
        .momentum = 0.9,
        .epochs = 80,
        .bucketed = true,
        .classifies = true,
    },
    {
        .name = "resnet-small",
        .description =
            "the images of digits, a residual network of three blocks whose batch normalization sums over all ranks",
        .unit = "image",
        .needs = "scikit-learn (1,438 training and 359 test images)",
        .batch = 8,
        .lr = 0.05,
        .momentum = 0.9,
        .epochs = 10,
        .bucketed = false,
        .classifies = true,
        .sums_in_passes = true,
    },
    {
        .name = "vowels",
        .description = "who speaks: an LSTM over utterances of 7 to 29 frames, naturally imbalanced",
        .unit = "padded time step",
        .needs = "sktime 1.2.0 (JapaneseVowels: 270 training and 370 test utterances)",
        .batch = 4,
        .lr = 0.2,
        .momentum = 0.9,
        .epochs = 40,
        .bucketed = true,
        .classifies = true,
    },
}};

}  // namespace

std::span<const WorkloadInfo> workload_catalogue() {
  return kCatalogue;
}

const WorkloadInfo& workload_info(std::string_view name) {
  const auto found = std::ranges::find(kCatalogue, name, &WorkloadInfo::name);
  if (found != kCatalogue.end()) return *found;
  std::string known;
  for (const WorkloadInfo& info : kCatalogue) {
    if (!known.empty()) known += ", ";
    known += info.name;
  }
  throw UsageError(text("unknown workload '", name, "'; there are ", known));
}

}  // namespace stretto
