#include "command/pages/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "command/cli/print.h"
#include "command/pages/roff.h"
#include "stretto/base/version.h"

namespace stretto::command {

namespace {

// Each of `entries` with its text indented below.
std::string tagged(const std::vector<HelpEntry>& entries) {
  std::string out;
  for (const HelpEntry& entry : entries) {
    out += fmt::format(".TP\n{}\n{}\n", roff_bold(entry.shown()), roff_text(entry.text));
  }
  return out;
}

std::string titled(const std::vector<HelpSection>& sections) {
  std::string out;
  for (const HelpSection& section : sections) {
    out += fmt::format(".PP\n{}\n{}", roff_text(section.title + ":"), tagged(section.entries));
  }
  return out;
}

std::string paragraphs(const std::vector<std::string>& notes) {
  std::string out;
  for (const std::string& note : notes) out += fmt::format(".PP\n{}\n", roff_text(note));
  return out;
}

std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// A group or a command in full; what it shares with others (topics) and its examples have sections of their own.
std::string subsection(const Help& help) {
  return fmt::format(".SS {}\n{}\n{}{}{}{}", roff_text(help.usage()), roff_text(help.summary), tagged(help.positionals),
                     tagged(help.commands), titled(help.options), paragraphs(help.notes));
}

std::string example_lines(const Help& help) {
  std::string out;
  for (const HelpEntry& example : help.examples) {
    // Lines to type are not filled: they may be longer than a line of the page.
    out += fmt::format("{}\n.PP\n.RS 4\n.EX\n{}\n.EE\n.RE\n.PP\n", roff_text(example.text), roff_text(example.name));
  }
  return out;
}

}  // namespace

std::string man_page(const Subcommand& program) {
  const Help whole = help_of(program, program.name);
  std::string commands, examples;
  std::vector<HelpSection> topics;  // each once
  for_each_help(program, [&](const Help& help) {
    if (help.name != whole.name) commands += subsection(help);
    examples += example_lines(help);
    for (const HelpSection& topic : help.topics) {
      if (std::ranges::find(topics, topic) == topics.end()) topics.push_back(topic);
    }
  });

  std::string out = fmt::format(".\\\" Printed by `{} man`, of what --help says.\n", program.name);
  out += fmt::format(".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n", upper_case(program.name), program.name,
                     stretto_version());
  out += ".ad l\n.nh\n";
  out += fmt::format(".SH NAME\n{} \\- {}\n", roff_text(program.name), roff_text(program.summary));
  out += fmt::format(".SH SYNOPSIS\n{}\n", roff_bold(whole.usage()));
  out += fmt::format(".SH DESCRIPTION\n{}\n{}", roff_text(whole.summary), paragraphs(whole.notes));
  out += fmt::format(".SH OPTIONS\n{}", tagged(whole.options.front().entries));
  out += fmt::format(".SH COMMANDS\n{}{}", tagged(whole.commands), commands);
  for (const HelpSection& topic : topics) {
    out += fmt::format(".SH {}\n{}", roff_text(upper_case(topic.title)), tagged(topic.entries));
  }
  if (!examples.empty()) examples.erase(examples.rfind(".PP\n"));  // between two of them only
  out += fmt::format(".SH EXAMPLES\n{}", examples);
  out += ".SH SEE ALSO\n.BR mpirun (1),\n.BR dot (1)\n";
  return out;
}

Subcommand man_command(const Subcommand& program) {
  struct None {};
  const auto describe = [](CommandLine& line, None&) {
    line.example("stretto man | man -l -", "Reads it.");
    line.example("stretto man > ~/.local/share/man/man1/stretto.1", "Where `man stretto` finds it.");
    line.note("An installation has the page in share/man/man1.");
  };
  const auto run = [&program](const None&) {
    print_to(stdout, man_page(program));
    return kSuccess;
  };
  return make_command({.name = "man", .summary = "Prints the manual page: this help, of all commands."}, None(),
                      describe, run);
}

}  // namespace stretto::command
