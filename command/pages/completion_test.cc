#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/pages/pages.h"

namespace stretto::command {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Options {
  std::string kind, text;
};

Subcommand command(const std::string& name, const std::string& with = {}) {
  const auto describe = [with](CommandLine& line, Options& options) {
    if (!with.empty()) line.option("--program", "PROGRAM", "", into(options.text));
    line.option("--kind", "KIND", "", one_of(options.kind, {"a", "b"}));
    line.option("--kinds", "LIST", "", into(options.text, {"a", "it's"}));
    line.option("--out", "DIR", "", into(options.text));
    line.flag("--json", "FILE", "", into(options.text));
    line.positional_list("FILE", "", into(options.text));
  };
  return make_command({.name = name, .summary = "Does.", .with = with}, Options(), describe,
                      [](const Options&) { return 0; });
}

// tests/command/pages_test.py runs the scripts.
TEST(Completion, TablesHaveWhatHelpSays) {
  const Subcommand program{
      .name = "p", .summary = "Things.", .table = {command("one"), command("one", "--program PROGRAM")}};
  const std::string script = completion_script(program, "bash");
  EXPECT_THAT(script, AllOf(HasSubstr("'p') names='--help --version' ;;"), HasSubstr("'p 1') takes=one known='one' ;;"),
                            HasSubstr("'p one') names='--kind --kinds --out --json --help --program' ;;"),
                            HasSubstr("'p one --kind') takes=one known='a b' ;;"),
                            HasSubstr("'p one --kinds') takes=list known='a it'\\''s' ;;"),
                            HasSubstr("'p one --out') takes=folder ;;"), HasSubstr("'p one --json=') takes=file ;;"),
                            HasSubstr("'p one '[0-9]*) takes=file ;;"),
                            HasSubstr("'p one --program') command='p one --program PROGRAM' ;;"),
                            HasSubstr("'p one --program PROGRAM --out') takes=folder ;;")));
  EXPECT_THAT(completion_script(program, "zsh"), StartsWith("#compdef p\n"));
}

TEST(Completion, EachProgramHasFunctionsOfItsOwn) {
  const Subcommand program{.name = "my-own.1", .summary = "Things.", .table = {command("one")}};
  for (const char* shell : {"bash", "zsh"}) {
    const std::string script = completion_script(program, shell);
    EXPECT_THAT(script, AllOf(HasSubstr("\n_my_own_1_complete() {\n"), HasSubstr("command=my-own.1 "),
                              HasSubstr("\ncomplete -F _my_own_1_complete my-own.1\n")));
    EXPECT_EQ(script.find("stretto"), std::string::npos);
  }
}

}  // namespace
}  // namespace stretto::command
