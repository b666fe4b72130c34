#include "command/cli/subcommand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::command {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Options {
  int ranks = 4;
  std::vector<std::string> rest;
};

// A program with a group, and two commands of one name; `ran` says what has been run.
class SubcommandTest : public ::testing::Test {
 protected:
  Subcommand command(const std::string& name, const std::string& with = {}) {
    const auto describe = [with](CommandLine& line, Options& options) {
      line.option("--ranks", "N", "How many.", into(options.ranks, 1, 8, "4"));
      if (with.empty()) return;
      line.option("--program", "PROGRAM", "Which.", [](std::string_view, const std::string&) {});
      line.rest("ARGUMENTS", options.rest);
    };
    const auto run = [this, name, with](const Options& options) {
      ran.push_back(name + with + std::to_string(options.ranks));
      rest = options.rest;
      return 7;
    };
    return make_command({.name = name, .summary = "Does " + name + ".", .with = with}, Options(), describe, run);
  }

  Subcommand program{.name = "p",
                     .summary = "Something.",
                     .table = {command("compare"),
                               command("compare", "--program PROGRAM"),
                               {.name = "bench", .summary = "Measures.", .table = {command("spin")}}}};
  std::vector<std::string> ran, rest;
};

TEST_F(SubcommandTest, RunsWhatIsNamed) {
  EXPECT_EQ(dispatch(program, {"compare", "--ranks", "2"}), 7);
  EXPECT_EQ(dispatch(program, {"bench", "spin"}), 7);
  EXPECT_THAT(ran, ElementsAre("compare2", "spin4"));
}

TEST_F(SubcommandTest, AnOptionChoosesBetweenTwoOfOneName) {
  EXPECT_EQ(dispatch(program, {"compare", "--ranks", "2", "--program", "x", "--", "--ranks", "9"}), 7);
  EXPECT_EQ(dispatch(program, {"compare", "--program=x"}), 7);
  EXPECT_THAT(ran, ElementsAre("compare--program PROGRAM2", "compare--program PROGRAM4"));
  dispatch(program, {"compare", "--ranks", "2", "--program=x", "--", "--ranks", "9"});
  EXPECT_THAT(rest, ElementsAre("--ranks", "9"));
}

TEST_F(SubcommandTest, AFirstWordChoosesBetweenTwoOfOneName) {
  program.table.push_back(command("compare", "plan"));
  EXPECT_EQ(dispatch(program, {"compare", "plan", "--ranks", "2"}), 7);
  EXPECT_EQ(dispatch(program, {"compare", "--ranks", "2"}), 7);
  EXPECT_EQ(dispatch(program, {"compare", "--program", "plan"}), 7);
  EXPECT_THAT(ran, ElementsAre("compareplan2", "compare2", "compare--program PROGRAM4"));
}

TEST_F(SubcommandTest, AnOptionTakesThePlaceOfAFirstWord) {
  Subcommand plan = command("compare", "plan");
  plan.or_with = "--program";
  program.table = {command("compare"), plan};
  EXPECT_EQ(dispatch(program, {"compare", "plan", "--ranks", "2"}), 7);
  EXPECT_EQ(dispatch(program, {"compare", "--program", "x", "--ranks", "3"}), 7);
  EXPECT_EQ(dispatch(program, {"compare", "plan", "--program=x"}), 7);
  EXPECT_EQ(dispatch(program, {"compare", "--ranks", "5"}), 7);
  EXPECT_THAT(ran, ElementsAre("compareplan2", "compareplan3", "compareplan4", "compare5"));
}

TEST_F(SubcommandTest, MistakesRunNothing) {
  EXPECT_EQ(dispatch(program, {}), kBadInput);
  EXPECT_EQ(dispatch(program, {""}), kBadInput);
  EXPECT_EQ(dispatch(program, {"bench"}), kBadInput);
  EXPECT_EQ(dispatch(program, {"bench", "spinn"}), kBadInput);
  EXPECT_EQ(dispatch(program, {"compare", "--ranks", "9"}), kBadInput);
  EXPECT_EQ(dispatch(program, {"compare", "--help"}), kSuccess);
  EXPECT_THAT(ran, ElementsAre());
}

TEST_F(SubcommandTest, EveryHelpIsVisitedUnderItsWholeName) {
  std::vector<std::string> names;
  for_each_help(program, [&names](const Help& help) { names.push_back(help.name); });
  EXPECT_THAT(names, ElementsAre("p", "p compare", "p compare --program PROGRAM", "p bench", "p bench spin"));
}

TEST_F(SubcommandTest, AGroupNamesItsCommands) {
  const std::string text = help_of(program, "p").to_text();
  EXPECT_THAT(text, StartsWith("Something.\n\nUsage: p COMMAND [OPTIONS]\n\nCommands:\n  compare   "));
  EXPECT_THAT(text, HasSubstr("\n  compare --program PROGRAM"));
}

}  // namespace
}  // namespace stretto::command
