#include "command/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto::command {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A subcommand as the program has them, and the values set by parsing.
class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() {
    line.positional("WORKLOAD", CommandLine::Presence::required, "what to train: vowels, digits", into(workload));
    line.heading("Job");
    line.option("--ranks", "N", "How many processes.", into(ranks, 1, 1024, "4"));
    line.option("--lr", "X", "Learning rate.", into(lr, 0, 100, "0.1"));
    line.option("--pace", "TIME", "Time per unit of work.", into(pace, "50us"));
    line.option("--data", "KIND", "Where batches come from.", one_of(data, {"shared", "partitioned", "sampled"}));
    line.flag("--json", "FILE", "As JSON.",
              [this](std::string_view, const std::string& text) { json = "json:" + text; });
    line.flag("--quiet", "", "Say less.", [this](std::string_view, const std::string&) { quiet = true; });
    line.example("stretto train vowels --ranks 4", "Four ranks.");
  }

  std::string error(const std::vector<std::string>& args) {
    try {
      line.parse(args);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "no error";
  }

  CommandLine line{"stretto train", "Trains."};
  std::string workload, data, json;
  int ranks = 0;
  double lr = 0;
  Duration pace{0};
  bool quiet = false;
};

TEST_F(CommandLineTest, SetsWhatIsGiven) {
  EXPECT_TRUE(line.parse({"--ranks", "8", "vowels", "--lr=0.5", "--pace", "50us", "--quiet"}));
  EXPECT_EQ(workload, "vowels");
  EXPECT_EQ(ranks, 8);
  EXPECT_EQ(lr, 0.5);
  EXPECT_EQ(pace, std::chrono::microseconds(50));
  EXPECT_TRUE(quiet);
  EXPECT_EQ(json, "");
}

TEST_F(CommandLineTest, AFlagTakesItsValueOnlyBehindAnEqualsSign) {
  EXPECT_TRUE(line.parse({"--json", "vowels"}));
  EXPECT_EQ(json, "json:");
  EXPECT_EQ(workload, "vowels");
}

TEST_F(CommandLineTest, AFlagWithItsValue) {
  EXPECT_TRUE(line.parse({"vowels", "--json=out.json"}));
  EXPECT_EQ(json, "json:out.json");
}

TEST_F(CommandLineTest, HelpSetsNothing) {
  EXPECT_FALSE(line.parse({"vowels", "--rnaks", "0", "--help"}));
  EXPECT_EQ(workload, "");
  EXPECT_THAT(line.help().to_text(),
              AllOf(HasSubstr("Usage: stretto train WORKLOAD [OPTIONS]"), HasSubstr("Job:\n  --ranks N "),
                    HasSubstr("--json[=FILE]"), HasSubstr("stretto train vowels --ranks 4")));
}

TEST_F(CommandLineTest, BadValuesAreNamedWithWhatWouldWork) {
  EXPECT_EQ(error({"vowels", "--ranks", "0"}), "--ranks 0: expected a whole number from 1 to 1024, as in --ranks 4");
  EXPECT_EQ(error({"vowels", "--ranks", "-3"}), "--ranks -3: expected a whole number from 1 to 1024, as in --ranks 4");
  EXPECT_EQ(error({"vowels", "--ranks", "4x"}), "--ranks 4x: expected a whole number from 1 to 1024, as in --ranks 4");
  EXPECT_EQ(error({"vowels", "--lr", "fast"}), "--lr fast: expected a number from 0 to 100, as in --lr 0.1");
  EXPECT_EQ(error({"vowels", "--lr", "nan"}), "--lr nan: expected a number from 0 to 100, as in --lr 0.1");
  EXPECT_EQ(error({"vowels", "--pace", "50"}),
            "--pace 50: expected a time with its unit (s, ms, us), as in --pace 50us");
  EXPECT_EQ(error({"vowels", "--data", "sharde"}),
            "--data sharde: did you mean shared? Known: shared, partitioned, sampled");
}

TEST_F(CommandLineTest, MisspeltAndMissingOptions) {
  EXPECT_EQ(error({"vowels", "--rnaks", "8"}),
            "unknown option --rnaks: did you mean --ranks? `stretto train --help` lists the options");
  EXPECT_EQ(error({"--rnaks", "8", "vowels"}),
            "unknown option --rnaks: did you mean --ranks? `stretto train --help` lists the options");
  EXPECT_EQ(error({"vowels", "--xyzzy"}), "unknown option --xyzzy: `stretto train --help` lists the options");
  EXPECT_EQ(error({"vowels", "-n", "8"}), "unknown option -n: `stretto train --help` lists the options");
  EXPECT_EQ(error({"vowels", "--ranks"}), "--ranks needs a value: --ranks N");
  EXPECT_EQ(error({"vowels", "--ranks="}), "--ranks needs a value: --ranks N");
  EXPECT_EQ(error({"vowels", "--ranks", "--json"}), "--ranks needs a value: --ranks N");
  EXPECT_EQ(error({"vowels", "--quiet=yes"}), "--quiet=yes: --quiet takes no value");
  EXPECT_EQ(error({"vowels", "--ranks", "4", "--ranks", "8"}), "--ranks is given 2 times (4, 8): give it once");
}

TEST_F(CommandLineTest, MissingAndSurplusArguments) {
  EXPECT_EQ(error({"--ranks", "4"}),
            "WORKLOAD is missing: what to train: vowels, digits. `stretto train --help` shows examples");
  EXPECT_EQ(error({"vowels", "digits"}), "unexpected argument digits: expected stretto train WORKLOAD [OPTIONS]");
}

TEST(CommandLine, TakesAListOfFiles) {
  std::vector<std::string> files;
  std::string out;
  CommandLine line("stretto bench plot", "Draws.");
  line.positional_list("FILE", "what was measured",
                       [&files](std::string_view, const std::string& text) { files.push_back(text); });
  line.option("--out", "DIR", "Where to.", into(out));
  EXPECT_TRUE(line.parse({"a", "b", "--out", "there", "c"}));
  EXPECT_THAT(files, ElementsAre("a", "b", "c"));
  EXPECT_EQ(out, "there");
  EXPECT_THAT(line.help().to_text(), HasSubstr("Usage: stretto bench plot FILE... [OPTIONS]"));
  EXPECT_THROW(CommandLine("x", "").parse({"a"}), UsageError);
}

TEST(CommandLine, KeepsWhatFollowsTheDashes) {
  std::vector<std::string> rest;
  int ranks = 0;
  CommandLine line("stretto compare", "Compares.");
  line.option("--ranks", "N", "How many.", into(ranks, 1, 8, "4"));
  EXPECT_THROW(line.parse({"--", "x"}), UsageError);
  line.rest("ARGUMENTS", rest);
  EXPECT_TRUE(line.parse({"--ranks", "2", "--", "--ranks", "9", "--help"}));
  EXPECT_EQ(ranks, 2);
  EXPECT_THAT(rest, ElementsAre("--ranks", "9", "--help"));
}

TEST_F(CommandLineTest, HelpKnowsTheValues) {
  EXPECT_THAT(line.help().option("--data")->known, ElementsAre("shared", "partitioned", "sampled"));
  EXPECT_TRUE(line.help().option("--ranks")->known.empty());
}

TEST(CommandLine, ExamplesShowTheProgramsOwnName) {
  CommandLine line("mine train", "Trains.");
  line.example("stretto train vowels", "Four ranks.");
  line.example("source <(stretto completion bash)", "Stays.");
  EXPECT_EQ(line.help().examples[0].name, "mine train vowels");
  EXPECT_EQ(line.help().examples[1].name, "source <(mine completion bash)");
}

TEST(CommandLine, AnOptionThatIsThereAlreadyIsRefused) {
  CommandLine line("mine train", "Trains.");
  int ranks = 0;
  line.option("--ranks", "N", "How many.", into(ranks, 1, 8, "4"));
  try {
    line.option("--ranks", "N", "Of an algorithm of one's own.", into(ranks, 1, 8, "4"));
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "option --ranks of an algorithm: `mine train` has one of this name; expected another");
  }
}

}  // namespace
}  // namespace stretto::command
