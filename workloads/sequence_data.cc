#include "workloads/sequence_data.h"

#include "stretto/observe/whole_file.h"
#include "workloads/data_files.h"

namespace stretto {
namespace {

constexpr int kPlaidFrame = 40;
// The currents are written with four decimals, so the spectra carry noise of about this size.
constexpr double kPlaidFloor = 1e-5;

// A file and the contents that tell it from a truncated one.
struct ExpectedFile {
  BundledFile file;
  int channels;
  std::size_t series;
  std::size_t steps;  // of all series together
};

constexpr std::string_view kPackage = "sktime==1.2.0";
constexpr ExpectedFile kVowelsTrain{
    {"sktime/datasets/data/JapaneseVowels/JapaneseVowels_TRAIN.ts", "270 training series of JapaneseVowels", kPackage},
    12,
    270,
    4274};
constexpr ExpectedFile kVowelsTest{
    {"sktime/datasets/data/JapaneseVowels/JapaneseVowels_TEST.ts", "370 test series of JapaneseVowels", kPackage},
    12,
    370,
    5687};
constexpr ExpectedFile kPlaidTrain{
    {"sktime/datasets/data/PLAID/PLAID_TRAIN.ts", "537 training series of PLAID", kPackage}, 1, 537, 173858};
constexpr ExpectedFile kPlaidTest{
    {"sktime/datasets/data/PLAID/PLAID_TEST.ts", "537 test series of PLAID", kPackage}, 1, 537, 175573};

Result<Sequences> load(const ExpectedFile& expected, const DatasetOptions& options) {
  const auto path = find_bundled(expected.file, options.directory);
  if (!path) return path.error();
  const auto content = read_whole_file(*path);
  if (!content) return content.error();
  auto read = parse_ts(*content, *path);
  if (!read) return unusable(expected.file, read.error().message);
  if (read->channels != expected.channels || read->size() != expected.series || read->num_steps() != expected.steps) {
    return unusable(expected.file, text(*path, ": ", read->size(), " series of ", read->channels, " dimensions, ",
                                        read->num_steps(), " steps in all, instead of ", expected.series, ", ",
                                        expected.channels, " and ", expected.steps, ": truncated or another file"));
  }
  return read;
}

}  // namespace

Result<std::shared_ptr<const Dataset>> load_vowels(const DatasetOptions& options) {
  auto train = load(kVowelsTrain, options);
  if (!train) return train.error();
  auto test = load(kVowelsTest, options);
  if (!test) return test.error();
  standardize(*train, *test);
  return std::shared_ptr<const Dataset>(
      std::make_shared<const SequenceDataset>("vowels", std::move(*train), std::move(*test)));
}

Result<std::shared_ptr<const Dataset>> load_plaid(const DatasetOptions& options) {
  const auto train_waves = load(kPlaidTrain, options);
  if (!train_waves) return train_waves.error();
  const auto test_waves = load(kPlaidTest, options);
  if (!test_waves) return test_waves.error();
  Sequences train = log_spectra(*train_waves, kPlaidFrame, kPlaidFloor);
  Sequences test = log_spectra(*test_waves, kPlaidFrame, kPlaidFloor);
  standardize(train, test);
  return std::shared_ptr<const Dataset>(
      std::make_shared<const SequenceDataset>("plaid", std::move(train), std::move(test)));
}

}  // namespace stretto
