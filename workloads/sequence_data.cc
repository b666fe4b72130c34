#include "workloads/sequence_data.h"

#include <cmath>
#include <numbers>

#include "stretto/base/error.h"
#include "stretto/observe/whole_file.h"
#include "workloads/data_files.h"

namespace stretto {
namespace {

void apply(Sequences& sequences, const std::vector<double>& mean, const std::vector<double>& scale) {
  const std::size_t channels = mean.size();
  for (std::size_t i = 0; i < sequences.values.size(); ++i) {
    const std::size_t channel = i % channels;
    sequences.values[i] = static_cast<float>((sequences.values[i] - mean[channel]) * scale[channel]);
  }
}

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

std::vector<std::uint32_t> Sequences::lengths() const {
  std::vector<std::uint32_t> out;
  out.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) out.push_back(length(i));
  return out;
}

void standardize(Sequences& train, Sequences& test) {
  STRETTO_CHECK(train.channels == test.channels && train.num_steps() > 0, train.channels, " ", test.channels);
  const auto channels = static_cast<std::size_t>(train.channels);
  const auto steps = static_cast<double>(train.num_steps());
  std::vector<double> mean(channels), scale(channels);
  for (std::size_t i = 0; i < train.values.size(); ++i) mean[i % channels] += train.values[i] / steps;
  for (std::size_t i = 0; i < train.values.size(); ++i) {
    const double difference = train.values[i] - mean[i % channels];
    scale[i % channels] += difference * difference / steps;
  }
  for (double& s : scale) s = s > 0 ? 1 / std::sqrt(s) : 1;
  apply(train, mean, scale);
  apply(test, mean, scale);
}

Sequences log_spectra(const Sequences& waves, int frame, double floor) {
  STRETTO_CHECK(waves.channels == 1 && frame > 0 && floor > 0, waves.channels, " ", frame, " ", floor);
  const int bins = frame / 2 + 1;
  // cos and sin of 2π k n / frame depend on k n modulo frame only.
  std::vector<double> cosine(static_cast<std::size_t>(frame)), sine(static_cast<std::size_t>(frame));
  for (int n = 0; n < frame; ++n) {
    cosine[static_cast<std::size_t>(n)] = std::cos(2 * std::numbers::pi * n / frame);
    sine[static_cast<std::size_t>(n)] = std::sin(2 * std::numbers::pi * n / frame);
  }
  Sequences out;
  out.channels = bins;
  out.classes = waves.classes;
  out.labels = waves.labels;
  for (std::size_t i = 0; i < waves.size(); ++i) {
    const std::span<const float> wave = waves.sequence(i);
    const std::size_t frames = (wave.size() + static_cast<std::size_t>(frame) - 1) / static_cast<std::size_t>(frame);
    for (std::size_t f = 0; f < frames; ++f) {
      const std::span<const float> samples =
          wave.subspan(f * static_cast<std::size_t>(frame),
                       std::min(static_cast<std::size_t>(frame), wave.size() - f * static_cast<std::size_t>(frame)));
      for (int k = 0; k < bins; ++k) {
        double real = 0, imaginary = 0;
        for (std::size_t n = 0; n < samples.size(); ++n) {
          const std::size_t turn = static_cast<std::size_t>(k) * n % static_cast<std::size_t>(frame);
          real += samples[n] * cosine[turn];
          imaginary += samples[n] * sine[turn];
        }
        out.values.push_back(static_cast<float>(std::log(std::hypot(real, imaginary) / frame + floor)));
      }
    }
    out.offsets.push_back(out.offsets.back() + frames);
  }
  return out;
}

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
