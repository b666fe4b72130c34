#include "workloads/digits_data.h"

#include "stretto/observe/whole_file.h"
#include "workloads/data_files.h"

namespace stretto {
namespace {

constexpr BundledFile kFile{"sklearn/datasets/data/digits.csv.gz", "1,797 images of 8×8 digits", "scikit-learn"};
constexpr std::size_t kImages = 1797;
constexpr std::size_t kTestEvery = 5;
constexpr float kWhite = 16;

}  // namespace

Result<std::shared_ptr<const Dataset>> load_digits(std::string_view workload, const DatasetOptions& options) {
  const auto path = find_bundled(kFile, options.directory);
  if (!path) return path.error();
  const auto content = read_whole_file(*path);
  if (!content) return unusable(kFile, content.error().message);
  const auto table = parse_csv(*content, *path);
  if (!table) return unusable(kFile, table.error().message);
  if (table->columns != DigitsDataset::kPixels + 1 || table->rows() != kImages) {
    return unusable(kFile, text(*path, ": ", table->rows(), " rows of ", table->columns, " columns instead of ",
                                kImages, " of ", DigitsDataset::kPixels + 1));
  }
  DigitsDataset::Images train, test;
  for (std::size_t i = 0; i < table->rows(); ++i) {
    DigitsDataset::Images& images = i % kTestEvery == kTestEvery - 1 ? test : train;
    const float* row = table->row(i);
    for (int pixel = 0; pixel < DigitsDataset::kPixels; ++pixel) images.pixels.push_back(row[pixel] / kWhite);
    const auto label = static_cast<std::int64_t>(row[DigitsDataset::kPixels]);
    if (label < 0 || label >= DigitsDataset::kClasses) {
      return unusable(kFile, text(*path, ":", i + 1, ": label ", label, " is not a digit"));
    }
    images.labels.push_back(label);
  }
  return std::shared_ptr<const Dataset>(
      std::make_shared<const DigitsDataset>(workload, std::move(train), std::move(test)));
}

}  // namespace stretto
