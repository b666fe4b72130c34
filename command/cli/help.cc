#include "command/cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "command/cli/table.h"

namespace stretto::command {

namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kIndent = 30;

std::string entry_lines(const HelpEntry& entry) {
  std::string out = "  " + entry.shown();
  const bool fits = out.size() + 2 <= kIndent;
  if (!fits) out += '\n';
  out.append(fits ? kIndent - out.size() : kIndent, ' ');
  return out + wrap(entry.text, kIndent, kWidth) + "\n";
}

std::string first_lines(const Help& help) {
  return fmt::format("{}\n\nUsage: {}\n", wrap(help.summary, 0, kWidth), help.usage());
}

}  // namespace

std::string HelpEntry::shown() const {
  if (value.empty()) return name;
  return value_may_be_left_out ? fmt::format("{}[={}]", name, value) : fmt::format("{} {}", name, value);
}

std::string Help::usage() const {
  std::string out = name;
  for (const HelpEntry& positional : positionals) {
    if (name.ends_with(" " + positional.name)) continue;  // it chooses this command
    const std::string shown = positional.name + (positional.several ? "..." : "");
    out += positional.may_be_left_out ? fmt::format(" [{}]", shown) : " " + shown;
  }
  if (!commands.empty()) out += " COMMAND";
  if (!options.empty()) out += " [OPTIONS]";
  if (!rest.empty()) out += rest_may_be_left_out ? fmt::format(" [-- {}...]", rest) : fmt::format(" -- {}...", rest);
  return out;
}

const HelpEntry* Help::option(std::string_view wanted) const {
  for (const HelpSection& section : options) {
    for (const HelpEntry& entry : section.entries) {
      if (entry.name == wanted) return &entry;
    }
  }
  return nullptr;
}

std::vector<std::string> Help::option_names() const {
  std::vector<std::string> out;
  for (const HelpSection& section : options) {
    for (const HelpEntry& entry : section.entries) out.push_back(entry.name);
  }
  return out;
}

std::string Help::to_text() const {
  std::string out = first_lines(*this);
  if (!positionals.empty()) out += "\n";
  for (const HelpEntry& entry : positionals) out += entry_lines(entry);
  std::vector<HelpSection> sections;
  if (!commands.empty()) sections.push_back({"Commands", commands});
  sections.insert(sections.end(), options.begin(), options.end());
  sections.insert(sections.end(), topics.begin(), topics.end());
  for (const HelpSection& section : sections) {
    out += fmt::format("\n{}:\n", section.title);
    for (const HelpEntry& entry : section.entries) out += entry_lines(entry);
  }
  if (!examples.empty()) out += "\nExamples:\n";
  for (const HelpEntry& example : examples) {
    out += fmt::format("  {}\n      {}\n", example.name, wrap(example.text, 6, kWidth));
  }
  for (const std::string& note : notes) out += fmt::format("\n{}\n", wrap(note, 0, kWidth));
  return out;
}

std::string Help::to_short_text() const {
  std::string out = first_lines(*this);
  for (const HelpSection& section : options) {
    std::string shown;
    for (const HelpEntry& entry : section.entries) {
      std::string unbroken = entry.shown();
      std::ranges::replace(unbroken, ' ', '\x1f');  // wrap() keeps an option and its value together
      shown += (shown.empty() ? "" : "  ") + unbroken;
    }
    std::string wrapped = wrap(shown, 2, kWidth);
    std::ranges::replace(wrapped, '\x1f', ' ');
    out += fmt::format("\n{}:\n  {}\n", section.title, wrapped);
  }
  if (!examples.empty()) out += fmt::format("\nExample:\n  {}\n", examples.front().name);
  return out + fmt::format("\n`{} --help` explains all of it\n", name);
}

std::string wrap(const std::string& text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = indent;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t length = width_of(word);
    if (!out.empty() && column + 1 + length > width) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (!out.empty()) {
      out += ' ';
      ++column;
    }
    out += word;
    column += length;
  }
  return out;
}

}  // namespace stretto::command
