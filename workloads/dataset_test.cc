#include "workloads/dataset.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stretto/observe/temporary_folder.h"
#include "stretto/observe/whole_file.h"
#include "workloads/data_files.h"
#include "workloads/digits_data.h"
#include "workloads/sequence_data.h"

namespace stretto {
namespace {

using testing::HasSubstr;

// The data of a workload where the package that bundles it is installed.
#define LOAD_OR_SKIP(workload)                                                        \
  const auto loaded = load_dataset(workload);                                         \
  if (!loaded) GTEST_SKIP() << "NOT TESTED on real data: " << loaded.error().message; \
  const Dataset& data = **loaded

TEST(Dataset, UnitsOfABatchAreItsLongestSampleTimesItsSize) {
  Sequences train;
  train.channels = train.classes = 1;
  train.offsets = {0, 3, 10, 15};
  train.values.resize(15);
  train.labels.resize(3);
  const SequenceDataset data("vowels", train, train);
  EXPECT_EQ(data.num_train(), 3u);
  EXPECT_EQ(data.lengths(), (std::vector<std::uint32_t>{3, 7, 5}));
  EXPECT_EQ(data.labels(), (std::vector<std::uint32_t>{0, 0, 0}));
  EXPECT_EQ(data.units(std::vector<std::uint32_t>{0, 2}), 10u);
  EXPECT_EQ(data.units(std::vector<std::uint32_t>{1}), 7u);
  EXPECT_EQ(data.units({}), 0u);
}

TEST(Dataset, UnknownWorkloadIsTheCallersMistake) {
  EXPECT_THROW((void)load_dataset("vowel"), UsageError);
}

TEST(Dataset, EveryWorkloadOfTheCatalogueHasItsLoader) {
  const TemporaryFolder empty;
  DatasetOptions options;
  options.directory = empty.path();
  options.hyperplane_points = 1;
  for (const WorkloadInfo& info : workload_catalogue()) {
    const auto loaded = load_dataset(info.name, options);
    if (info.name == "hyperplane") {
      ASSERT_TRUE(loaded.ok());
      EXPECT_EQ((*loaded)->info().name, info.name);
    } else {
      ASSERT_FALSE(loaded.ok()) << info.name;
      EXPECT_EQ(loaded.error().code, Errc::bad_input);
      EXPECT_THAT(loaded.error().message, HasSubstr(empty.path()));
      EXPECT_THAT(loaded.error().message, HasSubstr("pip install --no-deps"));
    }
  }
}

TEST(Dataset, AFileThatIsNotWhatItShouldBeIsNamedWithTheWayToMendIt) {
  const TemporaryFolder folder;
  DatasetOptions options;
  options.directory = folder.path();
  const std::string path =
      folder.write("JapaneseVowels_TRAIN.ts", "@univariate true\n@classLabel true 1 2\n@data\n1,2:1\n3,4,5:2\n");
  EXPECT_EQ(load_dataset("vowels", options).error().message,
            path +
                ": 2 series of 1 dimensions, 5 steps in all, instead of 270, 12 and 4274: truncated or another file; "
                "expected 270 training series of JapaneseVowels, which `.venv/bin/pip install --no-deps "
                "sktime==1.2.0` brings; or set STRETTO_DATA to a folder that has the file");
  folder.write("JapaneseVowels_TRAIN.ts", "@univariate true\n@classLabel true 1 2\n@data\n1,2:1\n3,4,");
  EXPECT_THAT(load_dataset("vowels", options).error().message, HasSubstr(path + ":5: 0 dimensions; expected 1"));
}

TEST(Vowels, AreAsPublished) {
  LOAD_OR_SKIP("vowels");
  EXPECT_EQ(data.num_train(), 270u);
  EXPECT_EQ(data.num_test(), 370u);
  EXPECT_EQ(std::ranges::min(data.lengths()), 7u);
  EXPECT_EQ(std::ranges::max(data.lengths()), 26u);
  EXPECT_EQ(std::accumulate(data.lengths().begin(), data.lengths().end(), 0u), 4274u);
  const auto& vowels = dynamic_cast<const SequenceDataset&>(data);
  std::vector<int> speakers(9);
  for (const std::int64_t label : vowels.sequences(Split::train).labels) ++speakers[static_cast<std::size_t>(label)];
  EXPECT_EQ(speakers, std::vector<int>(9, 30));
  double squares = 0;
  for (const float x : vowels.sequences(Split::train).values) squares += static_cast<double>(x) * x;
  EXPECT_NEAR(squares / (4274 * 12), 1, 1e-5);
}

TEST(Vowels, ATruncatedFileIsNoticedWhereverItEnds) {
  const auto path = find_bundled({"sktime/datasets/data/JapaneseVowels/JapaneseVowels_TRAIN.ts", "", ""});
  if (!path) GTEST_SKIP() << "NOT TESTED on real data: " << path.error().message;
  const std::string whole = read_whole_file(*path).or_throw();
  const TemporaryFolder folder;
  DatasetOptions options;
  options.directory = folder.path();
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{2000}, whole.size() / 2,
                                 whole.rfind('\n', whole.size() - 2) + 1, whole.size() - 3}) {
    folder.write("JapaneseVowels_TRAIN.ts", whole.substr(0, size));
    const auto loaded = load_dataset("vowels", options);
    ASSERT_FALSE(loaded.ok()) << size;
    EXPECT_THAT(loaded.error().message, HasSubstr("expected 270 training series of JapaneseVowels")) << size;
  }
}

TEST(Plaid, IsAsPublishedAndCutIntoFrames) {
  LOAD_OR_SKIP("plaid");
  EXPECT_EQ(data.num_train(), 537u);
  EXPECT_EQ(data.num_test(), 537u);
  EXPECT_EQ(std::ranges::min(data.lengths()), 3u);   // of 100 samples
  EXPECT_EQ(std::ranges::max(data.lengths()), 34u);  // of 1,344
  const Sequences& train = dynamic_cast<const SequenceDataset&>(data).sequences(Split::train);
  EXPECT_EQ(train.channels, 21);
  EXPECT_EQ(train.classes, 11);
  EXPECT_TRUE(std::ranges::all_of(train.values, [](float x) { return std::isfinite(x); }));
}

TEST(Digits, AreAsPublishedAndSplitOneInFive) {
  LOAD_OR_SKIP("digits");
  EXPECT_EQ(data.num_train(), 1438u);
  EXPECT_EQ(data.num_test(), 359u);
  EXPECT_EQ(data.lengths(), std::vector<std::uint32_t>(1438, 1));
  const auto& digits = dynamic_cast<const DigitsDataset&>(data);
  EXPECT_TRUE(std::ranges::equal(data.labels(), digits.images(Split::train).labels));
  std::vector<int> classes(10);
  for (const Split split : {Split::train, Split::test}) {
    const auto [low, high] = std::ranges::minmax(digits.images(split).pixels);
    EXPECT_EQ(low, 0);
    EXPECT_EQ(high, 1);
    for (const std::int64_t label : digits.images(split).labels) ++classes[static_cast<std::size_t>(label)];
  }
  EXPECT_EQ(classes, (std::vector<int>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}));
}

}  // namespace
}  // namespace stretto
