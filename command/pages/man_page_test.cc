#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/pages/pages.h"

namespace stretto::command {

namespace {

TEST(Roff, PrintsWhatStandsThere) {
  EXPECT_EQ(roff_text("--ranks N"), "\\-\\-ranks N");
  EXPECT_EQ(roff_text(".5 \\n"), "\\&.5 \\en");
  EXPECT_EQ(roff_text("a 'b' `c` \"d\" ~ ^"), "a \\(aqb\\(aq \\(gac\\(ga \\(dqd\\(dq \\(ti \\(ha");
  EXPECT_EQ(roff_text("'br"), "\\(aqbr");
  EXPECT_EQ(roff_bold("x"), "\\fBx\\fR");
}

TEST(Roff, NamesWhatIsNotAscii) {
  EXPECT_EQ(roff_text("2 × ≥ ö"), "2 \\[u00D7] \\[u2265] \\[u00F6]");
  EXPECT_EQ(roff_text("😀"), "\\[u1F600]");
}

using ::testing::AllOf;
using ::testing::HasSubstr;

// How often `part` stands in `text`.
int count(const std::string& text, const std::string& part) {
  int out = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

Subcommand documented_command(const std::string& name) {
  struct None {};
  const auto describe = [name](CommandLine& line, None&) {
    line.flag("--" + name, "", "Only " + name + " has it.", [](std::string_view, const std::string&) {});
    line.example("p " + name, "Does it.");
    line.topic("Colours", {{"red", "As blood."}});
    line.note("Note of " + name + ".");
  };
  return make_command({.name = name, .summary = "Does " + name + "."}, None(), describe, [](const None&) { return 0; });
}

TEST(ManPage, HasEveryCommandAndWhatTheyShareOnce) {
  const Subcommand program{
      .name = "p",
      .summary = "does things",
      .introduction = "Does all sorts of things.",
      .table = {documented_command("one"), {.name = "more", .summary = "More.", .table = {documented_command("two")}}}};
  const std::string page = man_page(program);
  EXPECT_THAT(page, AllOf(HasSubstr(".TH P 1 "), HasSubstr(".SH NAME\np \\- does things\n"),
                          HasSubstr(".SH DESCRIPTION\nDoes all sorts of things.\n"),
                          HasSubstr(".SS p one [OPTIONS]\nDoes one.\n"), HasSubstr("\n.SS p more COMMAND [OPTIONS]\n"),
                          HasSubstr(".TP\n\\fB\\-\\-two\\fR\nOnly two has it.\n"), HasSubstr("\nNote of two.\n"),
                          HasSubstr(".EX\np two\n.EE\n")));
  EXPECT_EQ(count(page, ".SH COLOURS\n"), 1);
  EXPECT_EQ(count(page, "As blood."), 1);
}

}  // namespace

}  // namespace stretto::command
