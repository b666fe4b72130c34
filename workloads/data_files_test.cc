#include "workloads/data_files.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "stretto/base/random.h"
#include "stretto/observe/temporary_folder.h"

namespace stretto {

namespace {

using testing::HasSubstr;

constexpr BundledFile kFile{"package/data/numbers.ts", "three numbers", "package==1.0"};

// Sets a variable of the environment for one test; nothing unsets it.
class Variable {
 public:
  Variable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const std::optional<std::string>& value) {
    if (value) {
      setenv(name_, value->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> before_;
};

TEST(FindBundled, LooksInTheGivenFolderAsInSitePackagesOrUnderTheBareName) {
  const TemporaryFolder packages, plain;
  const std::string in_packages = packages.write(kFile.path, "1 2 3");
  const std::string bare = plain.write("numbers.ts", "1 2 3");
  EXPECT_EQ(*find_bundled(kFile, packages.path()), in_packages);
  EXPECT_EQ(*find_bundled(kFile, plain.path()), bare);
  const Variable data("STRETTO_DATA", plain.path());
  EXPECT_EQ(*find_bundled(kFile), bare);
  EXPECT_EQ(*find_bundled(kFile, packages.path()), in_packages) << "what the caller names comes before the environment";
}

TEST(FindBundled, LooksInTheActiveVirtualEnvironment) {
  const TemporaryFolder environment;
  const std::string path = environment.write("lib/python3.11/site-packages/package/data/numbers.ts", "1 2 3");
  const Variable data("STRETTO_DATA", std::nullopt);
  const Variable active("VIRTUAL_ENV", environment.path());
  EXPECT_EQ(*find_bundled(kFile), path);
}

TEST(FindBundled, LooksInAnEnvironmentAboveTheWorkingDirectory) {
  const TemporaryFolder project;
  const std::string path = project.write(".venv/lib/python3.12/site-packages/package/data/numbers.ts", "1 2 3");
  project.write("build/release/here", "");
  const Variable data("STRETTO_DATA", std::nullopt);
  const Variable active("VIRTUAL_ENV", std::nullopt);
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(project.path() + "/build/release");
  const auto found = find_bundled(kFile);
  std::filesystem::current_path(before);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(std::filesystem::canonical(*found), std::filesystem::canonical(path));
}

TEST(FindBundled, OneLineSaysWhereItShouldBeAndWhatBringsIt) {
  const TemporaryFolder empty;
  const auto found = find_bundled(kFile, empty.path());
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, Errc::bad_input);
  EXPECT_EQ(found.error().message,
            empty.path() +
                "/package/data/numbers.ts: no such file; expected three numbers, which "
                "`.venv/bin/pip install --no-deps package==1.0` brings; or set STRETTO_DATA to a folder that "
                "has the file");
  const Variable data("STRETTO_DATA", std::nullopt);
  EXPECT_THAT(find_bundled(kFile).error().message, HasSubstr("pip install --no-deps package==1.0"));
}

using testing::ElementsAre;

TEST(ParseCsv, ReadsRows) {
  const auto table = parse_csv("1,2.5,-3\n4,5,6e2\r\n", "x.csv");
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->columns, 3u);
  EXPECT_EQ(table->rows(), 2u);
  EXPECT_THAT(table->values, ElementsAre(1, 2.5F, -3, 4, 5, 600));
  EXPECT_EQ(table->row(1)[2], 600);
}

TEST(ParseCsv, NamesLineAndColumn) {
  EXPECT_EQ(parse_csv("1,2\n3\n", "x.csv").error().message, "x.csv:2: 1 columns; expected 2 as on the first line");
  EXPECT_EQ(parse_csv("1,2\n3,four\n", "x.csv").error().message, "x.csv:2: column 2 is not a number");
  EXPECT_EQ(parse_csv("1,2\n\n3,4\n", "x.csv").error().message, "x.csv:2: column 1 is not a number");
  EXPECT_EQ(parse_csv("1,inf\n", "x.csv").error().message, "x.csv:1: column 2 is not a number");
  ASSERT_TRUE(parse_csv("", "x.csv").ok());
  EXPECT_EQ(parse_csv("", "x.csv")->rows(), 0u);
}

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kTwoDimensions =
    "# two series\n"
    "@problemName Test\n"
    "@timeStamps false\n"
    "@dimensions 2\n"
    "@classLabel true one two\n"
    "@data\n"
    "1,2,3:-1,-2.5,3e-1:two\n"
    "4:5:one\n";

std::string error_of(std::string_view content) {
  const auto parsed = parse_ts(content, "x.ts");
  EXPECT_FALSE(parsed.ok());
  if (parsed.ok()) return "";
  EXPECT_EQ(parsed.error().code, Errc::bad_input);
  EXPECT_EQ(parsed.error().message.find('\n'), std::string::npos);
  return parsed.error().message;
}

TEST(TsFile, ReadsSeriesOfDifferentLengthStepByStep) {
  const auto parsed = parse_ts(kTwoDimensions, "x.ts");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->channels, 2);
  EXPECT_EQ(parsed->classes, 2);
  EXPECT_THAT(parsed->values, ElementsAre(1, -1, 2, -2.5F, 3, 0.3F, 4, 5));
  EXPECT_THAT(parsed->offsets, ElementsAre(0, 3, 4));
  EXPECT_THAT(parsed->labels, ElementsAre(1, 0));
  EXPECT_THAT(parsed->lengths(), ElementsAre(3, 1));
  EXPECT_THAT(std::vector<float>(parsed->sequence(1).begin(), parsed->sequence(1).end()), ElementsAre(4, 5));
}

TEST(TsFile, TakesHeaderKeysInAnyCaseAndLinesOfAnySystem) {
  const auto parsed = parse_ts("@UNIVARIATE TRUE\r\n\r\n@CLASSLABEL True a\r\n@Data\r\n 1 , 2 : a \r\n", "x.ts");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_THAT(parsed->values, ElementsAre(1, 2));
}

TEST(TsFile, CountsDimensionsItselfWhenTheHeaderDoesNot) {
  const auto parsed = parse_ts("@classLabel true a\n@data\n1:2:3:a\n", "x.ts");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->channels, 3);
}

TEST(TsFile, NamesLineAndReasonOfWhatItCannotUse) {
  EXPECT_EQ(error_of(""), "x.ts:0: the file ends before @data");
  EXPECT_EQ(error_of("# only a comment\n"), "x.ts:1: the file ends before @data");
  EXPECT_EQ(error_of("1,2,3:a\n"), "x.ts:1: '1,2,3:a' before @data; expected '# comment' or '@key value'");
  EXPECT_THAT(error_of("@data\n1:a\n"), HasSubstr("x.ts:1: no '@classLabel true"));
  EXPECT_THAT(error_of("@classLabel false\n@data\n1:a\n"), HasSubstr("x.ts:1: @classLabel without 'true'"));
  EXPECT_THAT(error_of("@dimensions none\n"), HasSubstr("x.ts:1: @dimensions 'none'; expected a positive number"));
  EXPECT_THAT(error_of("@timeStamps true\n"), HasSubstr("x.ts:1: @timeStamps true"));
  const std::string header = "@dimensions 2\n@classLabel true a b\n@data\n";
  EXPECT_EQ(error_of(header), "x.ts:3: no series after @data");
  EXPECT_EQ(error_of(header + "1:2:c\n"), "x.ts:4: label 'c' is not among those of @classLabel");
  EXPECT_EQ(error_of(header + "1:2:a\n1:a\n"),
            "x.ts:5: 1 dimensions; expected 2, each followed by ':', then the label");
  EXPECT_EQ(error_of(header + "1,2:3:a\n"),
            "x.ts:4: dimension 2 has 1 values and dimension 1 has 2; expected as many in each");
  EXPECT_EQ(error_of(header + "1,2:3,?:a\n"), "x.ts:4: dimension 2, value 2 is '?'; expected a number");
  EXPECT_EQ(error_of(header + "1,:3,4:a\n"), "x.ts:4: dimension 1, value 2 is ''; expected a number");
  EXPECT_EQ(error_of(header + "1,nan:3,4:a\n"), "x.ts:4: dimension 1, value 2 is 'nan'; expected a number");
  EXPECT_EQ(error_of(header + "1,1e99:3,4:a\n"), "x.ts:4: dimension 1, value 2 is '1e99'; expected a number");
}

TEST(TsFile, EveryTruncationInsideALineIsNoticed) {
  const std::string whole = kTwoDimensions;
  const std::size_t first_series = whole.find("1,2,3");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto parsed = parse_ts(whole.substr(0, size), "x.ts");
    // Cut between two series, the rest is a good file; only a caller that knows the number of series notices.
    const bool first_is_whole = size == whole.find("4:5") - 1 || size == whole.find("4:5");
    const bool both_are_whole = size == whole.size() - 1;
    EXPECT_EQ(parsed.ok(), first_is_whole || both_are_whole)
        << "after " << size << " bytes, data from " << first_series;
  }
}

TEST(TsFile, GarbageIsAnErrorAndNothingWorse) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    std::string content = kTwoDimensions;
    const int changes = static_cast<int>(random.between(1, 40));
    for (int i = 0; i < changes; ++i) content[random.below(content.size())] = static_cast<char>(random.below(256));
    const auto parsed = parse_ts(content, "x.ts");
    if (parsed.ok()) {
      EXPECT_EQ(parsed->values.size(), parsed->num_steps() * static_cast<std::size_t>(parsed->channels)) << seed;
      EXPECT_EQ(parsed->offsets.size(), parsed->size() + 1) << seed;
      for (const std::int64_t label : parsed->labels) EXPECT_LT(label, parsed->classes) << seed;
    } else {
      EXPECT_THAT(parsed.error().message, HasSubstr("x.ts:")) << seed;
      EXPECT_EQ(parsed.error().message.find('\n'), std::string::npos) << seed;
    }
  }
}

}  // namespace

}  // namespace stretto
