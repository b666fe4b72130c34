#include "command/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <sstream>

#include "command/cli/print.h"
#include "command/cli/table.h"
#include "stretto/base/error.h"
#include "stretto/base/words/suggest.h"

namespace stretto::command {

namespace {

constexpr std::size_t kHelpWidth = 100;
constexpr std::size_t kHelpIndent = 30;

struct Entry {
  std::string shown;  // "--ranks N"
  std::string help;
};
struct Section {
  std::string title;
  std::vector<Entry> entries;
};

// The text that CLI11 hands over for a flag without a value.
constexpr const char* kNoValue = "true";

bool looks_like_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && (word[1] == '-' || std::isalpha(static_cast<unsigned char>(word[1])));
}

}  // namespace

class CommandLine::Impl {
 public:
  explicit Impl(std::string summary_text) : summary(std::move(summary_text)) {
    app.set_help_flag();
    app.allow_extras(false);
  }

  void add_entry(std::string shown, std::string help) {
    if (sections.empty()) sections.push_back({"Options", {}});
    sections.back().entries.push_back({std::move(shown), std::move(help)});
  }

  // CLI11 hands over every value given.
  static CLI::callback_t once(const std::string& name, Setter set, bool is_flag) {
    return [name, set = std::move(set), is_flag](const CLI::results_t& given) {
      if (given.size() > 1) {
        const std::string values = is_flag ? std::string() : fmt::format(" ({})", join(given));
        throw UsageError(fmt::format("{} is given {} times{}: give it once", name, given.size(), values));
      }
      set(name, is_flag && given[0] == kNoValue ? std::string() : given[0]);
      return true;
    };
  }

  // Every word that looks like an option must be one, and have its value. Done before CLI11 sees any, for it would
  // take the word after a misspelt option for a positional argument and complain about that.
  void check_names(const std::string& command, const std::vector<std::string>& args) const {
    for (std::size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
      if (!looks_like_option(args[i])) continue;
      const std::string name = args[i].substr(0, args[i].find('='));
      const auto found = placeholders.find(name);
      if (found == placeholders.end()) {
        std::vector<std::string> known;
        for (const auto& [option, placeholder] : placeholders) known.push_back(option);
        const std::string near = nearest(name, known);
        throw UsageError(fmt::format("unknown option {}: {}`{} --help` lists the options", name,
                                     near.empty() ? "" : fmt::format("did you mean {}? ", near), command));
      }
      if (found->second.empty()) continue;
      const bool inside = name.size() < args[i].size();
      const bool empty = inside && name.size() + 1 == args[i].size();
      const bool missing = !inside && (i + 1 == args.size() || looks_like_option(args[i + 1]));
      if (empty || missing) throw UsageError(fmt::format("{} needs a value: {} {}", name, name, found->second));
      if (!inside) ++i;
    }
  }

  CLI::App app;
  std::string summary;
  std::vector<Entry> positionals;
  std::string usage;
  std::vector<Section> sections;
  std::vector<Section> topics;
  std::vector<Entry> examples;
  std::vector<std::string> notes;
  std::map<std::string, std::string> placeholders;  // by option; empty for a flag
};

CommandLine::CommandLine(std::string name, std::string summary)
    : name_(std::move(name)), impl_(std::make_unique<Impl>(std::move(summary))) {}
CommandLine::~CommandLine() = default;

void CommandLine::positional(const std::string& name, Presence presence, const std::string& help, Setter set) {
  CLI::Option* option = impl_->app.add_option(name, Impl::once(name, std::move(set), false), help);
  option->expected(1)->required(presence == Presence::required);
  impl_->positionals.push_back({name, help});
  impl_->usage += presence == Presence::required ? " " + name : " [" + name + "]";
}

void CommandLine::positional_list(const std::string& name, const std::string& help, Setter set) {
  const CLI::callback_t each = [name, set = std::move(set)](const CLI::results_t& given) {
    for (const std::string& text : given) set(name, text);
    return true;
  };
  CLI::Option* option = impl_->app.add_option(name, each, help);
  option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args()->required();
  impl_->positionals.push_back({name, help});
  impl_->usage += " " + name + "...";
}

void CommandLine::option(const std::string& name, const std::string& value, const std::string& help, Setter set) {
  CLI::Option* option = impl_->app.add_option(name, Impl::once(name, std::move(set), false), help);
  option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  impl_->add_entry(name + " " + value, help);
  impl_->placeholders[name] = value;
}

void CommandLine::flag(const std::string& name, const std::string& value, const std::string& help, Setter set) {
  const bool takes_value = !value.empty();
  Setter checked = [set = std::move(set), takes_value](std::string_view option, const std::string& text) {
    if (!takes_value && !text.empty()) throw UsageError(fmt::format("{}={}: {} takes no value", option, text, option));
    set(option, text);
  };
  CLI::Option* option = impl_->app.add_option(name, Impl::once(name, std::move(checked), true), help);
  option->expected(0)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  impl_->add_entry(takes_value ? fmt::format("{}[={}]", name, value) : name, help);
  impl_->placeholders[name] = "";
}

void CommandLine::heading(std::string title) {
  impl_->sections.push_back({std::move(title), {}});
}
void CommandLine::topic(std::string title, std::vector<std::pair<std::string, std::string>> entries) {
  Section section{std::move(title), {}};
  for (auto& [name, text] : entries) section.entries.push_back({std::move(name), std::move(text)});
  impl_->topics.push_back(std::move(section));
}
void CommandLine::example(std::string line, std::string meaning) {
  impl_->examples.push_back({std::move(line), std::move(meaning)});
}
void CommandLine::note(std::string paragraph) {
  impl_->notes.push_back(std::move(paragraph));
}

bool CommandLine::parse(const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (arg == "--") break;
    if (arg != "--help" && arg != "-h") continue;
    print_to(stdout, arg == "-h" ? short_help() : help());
    return false;
  }
  impl_->check_names(name_, args);
  try {
    impl_->app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // CLI11 wants them from the back
  } catch (const CLI::RequiredError&) {
    for (const Entry& positional : impl_->positionals) {
      if (impl_->app.count(positional.shown) == 0) {
        throw UsageError(
            fmt::format("{} is missing: {}. `{} --help` shows examples", positional.shown, positional.help, name_));
      }
    }
    throw;
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> left = impl_->app.remaining();
    throw UsageError(fmt::format("unexpected argument {}: expected {}{} [OPTIONS]", left.empty() ? "" : left.front(),
                                 name_, impl_->usage));
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}. `{} --help` lists the options", error.what(), name_));
  }
  return true;
}

std::string CommandLine::short_help() const {
  std::string out =
      fmt::format("{}\n\nUsage: {}{} [OPTIONS]\n", wrap(impl_->summary, 0, kHelpWidth), name_, impl_->usage);
  for (const Section& section : impl_->sections) {
    std::string shown;
    for (const Entry& entry : section.entries) {
      std::string unbroken = entry.shown;
      std::ranges::replace(unbroken, ' ', '\x1f');  // wrap() keeps an option and its value together
      shown += (shown.empty() ? "" : "  ") + unbroken;
    }
    std::string wrapped = wrap(shown, 2, kHelpWidth);
    std::ranges::replace(wrapped, '\x1f', ' ');
    out += fmt::format("\n{}:\n  {}\n", section.title, wrapped);
  }
  if (!impl_->examples.empty()) out += fmt::format("\nExample:\n  {}\n", impl_->examples.front().shown);
  return out + fmt::format("\n`{} --help` explains all of it\n", name_);
}

std::string CommandLine::help() const {
  std::string out =
      fmt::format("{}\n\nUsage: {}{} [OPTIONS]\n", wrap(impl_->summary, 0, kHelpWidth), name_, impl_->usage);
  const auto add = [&out](const Entry& entry) {
    const std::string left = "  " + entry.shown;
    out += left;
    if (left.size() + 2 > kHelpIndent) {
      out += "\n" + std::string(kHelpIndent, ' ');
    } else {
      out += std::string(kHelpIndent - left.size(), ' ');
    }
    out += wrap(entry.help, kHelpIndent, kHelpWidth) + "\n";
  };
  if (!impl_->positionals.empty()) out += "\n";
  for (const Entry& entry : impl_->positionals) add(entry);
  for (const std::vector<Section>* sections : {&impl_->sections, &impl_->topics}) {
    for (const Section& section : *sections) {
      out += fmt::format("\n{}:\n", section.title);
      for (const Entry& entry : section.entries) add(entry);
    }
  }
  if (!impl_->examples.empty()) out += "\nExamples:\n";
  for (const Entry& example : impl_->examples) {
    out += fmt::format("  {}\n      {}\n", example.shown, wrap(example.help, 6, kHelpWidth));
  }
  for (const std::string& note : impl_->notes) out += "\n" + wrap(note, 0, kHelpWidth) + "\n";
  return out;
}

std::string wrap(const std::string& text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = indent;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t length = width_of(word);
    if (!out.empty() && column + 1 + length > width) {
      out += "\n" + std::string(indent, ' ');
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
