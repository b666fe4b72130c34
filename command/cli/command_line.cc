#include "command/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "command/cli/output.h"
#include "stretto/base/error.h"
#include "stretto/base/words.h"

namespace stretto::command {

namespace {

// The text that CLI11 hands over for a flag without a value.
constexpr const char* kNoValue = "true";

bool looks_like_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && (word[1] == '-' || std::isalpha(static_cast<unsigned char>(word[1])));
}

/// With a full stop at the end.
std::string sentence(const std::string& text) {
  return text.ends_with('.') ? text : text + '.';
}

}  // namespace

class CommandLine::Impl {
 public:
  Impl(std::string name, std::string summary) : help{std::move(name), std::move(summary)} {
    app.set_help_flag();
    app.allow_extras(false);
  }

  void add_option(HelpEntry entry) {
    if (help.option(entry.name) != nullptr) {
      throw UsageError(
          fmt::format("option {} of an algorithm: `{}` has one of this name; expected another", entry.name, help.name));
    }
    if (help.options.empty()) help.options.push_back({"Options"});
    help.options.back().entries.push_back(std::move(entry));
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
  void check_names(const std::vector<std::string>& args) const {
    for (std::size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
      if (!looks_like_option(args[i])) continue;
      const std::string name = args[i].substr(0, args[i].find('='));
      const HelpEntry* found = help.option(name);
      if (found == nullptr) {
        const std::string near = nearest(name, help.option_names());
        throw UsageError(fmt::format("unknown option {}: {}`{} --help` lists the options", name,
                                     near.empty() ? "" : fmt::format("did you mean {}? ", near), help.name));
      }
      if (found->value.empty() || found->value_may_be_left_out) continue;
      const bool inside = name.size() < args[i].size();
      const bool empty = inside && name.size() + 1 == args[i].size();
      const bool missing = !inside && (i + 1 == args.size() || looks_like_option(args[i + 1]));
      if (empty || missing) throw UsageError(fmt::format("{} needs a value: {}", name, found->shown()));
      if (!inside) ++i;
    }
  }

  CLI::App app;
  Help help;
  std::vector<std::string>* rest = nullptr;
};

CommandLine::CommandLine(std::string name, std::string summary)
    : impl_(std::make_unique<Impl>(std::move(name), std::move(summary))) {}
CommandLine::~CommandLine() = default;

const Help& CommandLine::help() const {
  return impl_->help;
}

void CommandLine::positional(const std::string& name, Presence presence, const std::string& help, Setter set) {
  impl_->help.positionals.push_back(
      {.name = name, .text = help, .known = set.known(), .may_be_left_out = presence == Presence::optional});
  CLI::Option* option = impl_->app.add_option(name, Impl::once(name, std::move(set), false), help);
  option->expected(1)->required(presence == Presence::required);
}

void CommandLine::positional_list(const std::string& name, const std::string& help, Setter set) {
  impl_->help.positionals.push_back({.name = name, .text = help, .known = set.known(), .several = true});
  const CLI::callback_t each = [name, set = std::move(set)](const CLI::results_t& given) {
    for (const std::string& text : given) set(name, text);
    return true;
  };
  CLI::Option* option = impl_->app.add_option(name, each, help);
  option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args()->required();
}

void CommandLine::option(const std::string& name, const std::string& value, const std::string& help, Setter set) {
  impl_->add_option({.name = name, .value = value, .text = help, .known = set.known()});
  CLI::Option* option = impl_->app.add_option(name, Impl::once(name, std::move(set), false), help);
  option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void CommandLine::flag(const std::string& name, const std::string& value, const std::string& help, Setter set) {
  impl_->add_option(
      {.name = name, .value = value, .text = help, .known = set.known(), .value_may_be_left_out = !value.empty()});
  const bool takes_value = !value.empty();
  Setter checked = [set = std::move(set), takes_value](std::string_view option, const std::string& text) {
    if (!takes_value && !text.empty()) throw UsageError(fmt::format("{}={}: {} takes no value", option, text, option));
    set(option, text);
  };
  CLI::Option* option = impl_->app.add_option(name, Impl::once(name, std::move(checked), true), help);
  option->expected(0)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void CommandLine::rest(const std::string& name, std::vector<std::string>& target, Presence presence) {
  impl_->help.rest = name;
  impl_->help.rest_may_be_left_out = presence == Presence::optional;
  impl_->rest = &target;
}

void CommandLine::heading(std::string title) {
  impl_->help.options.push_back({std::move(title)});
}
void CommandLine::topic(std::string title, std::vector<std::pair<std::string, std::string>> entries) {
  HelpSection section{std::move(title)};
  for (auto& [name, text] : entries) section.entries.push_back({.name = std::move(name), .text = std::move(text)});
  impl_->help.topics.push_back(std::move(section));
}
void CommandLine::example(std::string line, std::string meaning) {
  const std::string program = impl_->help.name.substr(0, impl_->help.name.find(' '));
  if (const std::size_t at = line.find("stretto "); at != std::string::npos) line.replace(at, 7, program);
  impl_->help.examples.push_back({.name = std::move(line), .text = std::move(meaning)});
}
void CommandLine::note(std::string paragraph) {
  impl_->help.notes.push_back(std::move(paragraph));
}

bool CommandLine::parse(const std::vector<std::string>& args) {
  const Help& help = impl_->help;
  const auto dashes = std::ranges::find(args, "--");
  for (auto arg = args.begin(); arg != dashes; ++arg) {
    if (*arg != "--help" && *arg != "-h") continue;
    print_to(stdout, *arg == "-h" ? help.to_short_text() : help.to_text());
    return false;
  }
  impl_->check_names(args);
  const bool splits = impl_->rest != nullptr && dashes != args.end();
  if (splits) impl_->rest->assign(dashes + 1, args.end());
  std::vector<std::string> own(args.begin(), splits ? dashes : args.end());
  std::ranges::reverse(own);  // CLI11 wants them from the back
  try {
    impl_->app.parse(std::move(own));
  } catch (const CLI::RequiredError&) {
    for (const HelpEntry& positional : help.positionals) {
      if (impl_->app.count(positional.name) == 0) {
        throw UsageError(fmt::format("{} is missing: {} `{} --help` shows examples", positional.name,
                                     sentence(positional.text), help.name));
      }
    }
    throw;
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> left = impl_->app.remaining();
    throw UsageError(
        fmt::format("unexpected argument {}: expected {}", left.empty() ? "" : left.front(), help.usage()));
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}. `{} --help` lists the options", error.what(), help.name));
  }
  if (!help.rest_may_be_left_out && impl_->rest->empty()) {
    throw UsageError(fmt::format("{} is missing behind --: expected {}", help.rest, help.usage()));
  }
  return true;
}

}  // namespace stretto::command
