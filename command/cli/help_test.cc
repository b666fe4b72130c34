#include "command/cli/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::command {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Help help_of_train() {
  return {.name = "stretto train",
          .summary = "Trains.",
          .positionals = {{.name = "WORKLOAD", .text = "what to train"}, {.name = "FILE", .several = true}},
          .options = {{"Job",
                       {{.name = "--ranks", .value = "N", .text = "How many processes."},
                        {.name = "--json", .value = "FILE", .text = "As JSON.", .value_may_be_left_out = true}}}},
          .topics = {{"Algorithms", {{.name = "sync", .text = "Waits for all."}}}},
          .examples = {{.name = "stretto train vowels", .text = "Four ranks."}},
          .notes = {"The end."},
          .rest = "ARGUMENTS"};
}

TEST(Help, UsageHasWhatIsTyped) {
  EXPECT_EQ(help_of_train().usage(), "stretto train WORKLOAD FILE... [OPTIONS] [-- ARGUMENTS...]");
  const Help group{.name = "stretto", .summary = "", .commands = {{.name = "train"}}};
  EXPECT_EQ(group.usage(), "stretto COMMAND");
  const Help optional{.name = "x", .summary = "", .positionals = {{.name = "FILE", .may_be_left_out = true}}};
  EXPECT_EQ(optional.usage(), "x [FILE]");
}

TEST(Help, TextHasAllParts) {
  EXPECT_THAT(
      help_of_train().to_text(),
      AllOf(HasSubstr("Trains.\n\nUsage: stretto train WORKLOAD"), HasSubstr("  WORKLOAD   "),
            HasSubstr("\nJob:\n  --ranks N   "), HasSubstr("  --json[=FILE]  "), HasSubstr("\nAlgorithms:\n  sync  "),
            HasSubstr("\nExamples:\n  stretto train vowels\n      Four"), HasSubstr("\nThe end.\n")));
}

TEST(Help, ShortTextHasTheNamesOfTheOptions) {
  EXPECT_THAT(help_of_train().to_short_text(),
              AllOf(HasSubstr("\nJob:\n  --ranks N --json[=FILE]\n"), HasSubstr("Example:\n  stretto train vowels\n"),
                    HasSubstr("`stretto train --help` explains all of it")));
}

TEST(Help, FindsOptions) {
  const Help help = help_of_train();
  EXPECT_THAT(help.option_names(), ElementsAre("--ranks", "--json"));
  ASSERT_NE(help.option("--json"), nullptr);
  EXPECT_EQ(help.option("--json")->text, "As JSON.");
  EXPECT_EQ(help.option("--jsn"), nullptr);
}

TEST(Wrap, BreaksBetweenWordsAndCountsCharacters) {
  EXPECT_EQ(wrap("one two three", 0, 7), "one two\nthree");
  EXPECT_EQ(wrap("one two three", 2, 9), "one two\n  three");
  EXPECT_EQ(wrap("größe zwei", 0, 10), "größe zwei");
  EXPECT_EQ(wrap("averylongword x", 0, 4), "averylongword\nx");
}

}  // namespace
}  // namespace stretto::command
