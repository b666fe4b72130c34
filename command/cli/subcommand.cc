#include "command/cli/subcommand.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

#include "command/cli/output.h"
#include "stretto/base/error.h"
#include "stretto/base/version.h"
#include "stretto/base/words.h"

namespace stretto::command {

namespace {

/// A closed standard stream would be the next file that is opened, and what is printed would end up there. Where output
/// was closed, writing fails.
void open_standard_streams() {
  for (const auto& [file, mode] :
       {std::pair{STDIN_FILENO, O_RDONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_WRONLY}}) {
    if (::fcntl(file, F_GETFD) >= 0) continue;
    const int opened = ::open("/dev/null", mode);  // the lowest free number: this one
    static_cast<void>(opened);
  }
}

/// Bytes of stack, below which nothing is begun: a call that has none left ends the process without a word. Twice what
/// is needed to train (docs/decisions.md).
constexpr rlim_t kLeastStack = rlim_t{256} << 10;

void require_stack() {
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= kLeastStack) return;
  throw UsageError(fmt::format("ulimit -s {}: expected a stack of at least {} KiB, as in ulimit -s 8192",
                               stack.rlim_cur / 1024, kLeastStack / 1024));
}

// "compare --program PROGRAM"
std::string shown_name(const Subcommand& subcommand) {
  return subcommand.with.empty() ? subcommand.name : subcommand.name + " " + subcommand.with;
}

bool is_given(const std::string& option, const Arguments& arguments) {
  return std::any_of(arguments.begin(), std::ranges::find(arguments, "--"), [&](const std::string& argument) {
    return argument == option || argument.starts_with(option + "=");
  });
}

bool is_first_word(const std::string& with) {
  return !with.empty() && with.front() != '-';
}

// Whether `rest` begins with the word that chooses the command.
bool begins_with_word(const Subcommand& subcommand, const Arguments& rest) {
  return subcommand.is_value == nullptr && is_first_word(subcommand.with) && !rest.empty() &&
         rest.front() == subcommand.with;
}

// The command of `table` that is called `name`, given the words behind it; nullptr where there is none.
const Subcommand* find_in(const std::vector<Subcommand>& table, const std::string& name, const Arguments& rest) {
  const Subcommand* found = nullptr;
  for (const Subcommand& subcommand : table) {
    if (subcommand.name != name) continue;
    const std::string option = subcommand.with.substr(0, subcommand.with.find(' '));
    const bool chosen =
        subcommand.is_value != nullptr ? std::any_of(rest.begin(), std::ranges::find(rest, "--"), subcommand.is_value)
        : is_first_word(option)
            ? begins_with_word(subcommand, rest) || (!subcommand.or_with.empty() && is_given(subcommand.or_with, rest))
            : option.empty() || is_given(option, rest);
    if (chosen) found = &subcommand;
  }
  return found;
}

std::vector<std::string> names_in(const std::vector<Subcommand>& table) {
  std::vector<std::string> out;
  for (const Subcommand& subcommand : table) {
    if (subcommand.with.empty()) out.push_back(subcommand.name);
  }
  return out;
}

int run_in_group(const Subcommand& group, const std::string& full_name, const Arguments& arguments) {
  if (arguments.empty() || arguments.front().empty()) {
    print_to(stderr, help_of(group, full_name).to_text());
    return kBadInput;
  }
  const std::string& first = arguments.front();
  const Arguments rest(arguments.begin() + 1, arguments.end());
  if (const Subcommand* found = find_in(group.table, first, rest)) {
    if (!found->table.empty()) return run_in_group(*found, full_name + " " + first, rest);
    const bool has_word = begins_with_word(*found, rest);
    return guarded(full_name + " " + first, [&] {
      require_stack();
      return found->run(full_name + " " + shown_name(*found), Arguments(rest.begin() + (has_word ? 1 : 0), rest.end()));
    });
  }
  return guarded(full_name, [&]() -> int {
    if (first == "--help" || first == "-h" || first == "help") {
      print_to(stdout, help_of(group, full_name).to_text());
      return kSuccess;
    }
    if (first == "--version") {
      print_to(stdout, fmt::format("stretto {}\n", stretto_version()));
      return kSuccess;
    }
    throw UsageError(fmt::format("unknown {} {}: {}", first.starts_with('-') ? "option" : "command", first,
                                 suggestion(first, names_in(group.table))));
  });
}

void visit_below(const Subcommand& subcommand, const std::string& full_name,
                 const std::function<void(const Help& help)>& visit) {
  visit(help_of(subcommand, full_name));
  for (const Subcommand& below : subcommand.table) visit_below(below, full_name + " " + shown_name(below), visit);
}

}  // namespace

Help help_of(const Subcommand& subcommand, const std::string& full_name) {
  if (subcommand.table.empty()) return subcommand.help(full_name);
  Help help{.name = full_name,
            .summary = subcommand.introduction.empty() ? subcommand.summary : subcommand.introduction};
  help.options.push_back(
      {"Options",
       {{.name = "--help", .text = "Of the program and of every command: explains it. -h is shorter."},
        {.name = "--version", .text = "Prints the version."}}});
  for (const Subcommand& below : subcommand.table) {
    help.commands.push_back({.name = shown_name(below), .text = below.summary});
  }
  help.notes.push_back(fmt::format("`{} COMMAND --help` explains a command and shows examples.", full_name));
  return help;
}

void for_each_help(const Subcommand& program, const std::function<void(const Help& help)>& visit) {
  visit_below(program, program.name, visit);
}

int dispatch(const Subcommand& program, const Arguments& arguments) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that would become too large is an error of its write
  return run_in_group(program, program.name, arguments);
}

}  // namespace stretto::command
