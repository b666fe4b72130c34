#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "command/cli/output.h"
#include "command/pages/pages.h"
#include "stretto/base/version.h"

namespace stretto::command {

namespace {

// The escape of an ASCII character that roff would take for something else, or print as something else; nullptr: none.
const char* escape_of(char c) {
  switch (c) {
    case '\\': return "\\e";
    case '-': return "\\-";  // the character of options, not a hyphen
    case '"': return "\\(dq";
    case '\'': return "\\(aq";
    case '`': return "\\(ga";
    case '^': return "\\(ha";
    case '~': return "\\(ti";
    default: return nullptr;
  }
}

}  // namespace

std::string roff_text(std::string_view text) {
  std::string out = text.starts_with('.') ? "\\&" : "";
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      const char* escape = escape_of(text[i++]);
      out += escape != nullptr ? std::string(escape) : std::string(1, static_cast<char>(first));
      continue;
    }
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    unsigned code = first & (0xFFU >> (length + 1));
    for (std::size_t k = 1; k < length && i + k < text.size(); ++k) {
      code = code << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    }
    out += fmt::format("\\[u{:04X}]", code);
    i += length;
  }
  return out;
}

std::string roff_bold(std::string_view text) {
  return "\\fB" + roff_text(text) + "\\fR";
}

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
