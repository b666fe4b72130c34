#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "command/cli/command_line.h"
#include "command/cli/exit_code.h"
#include "command/cli/help.h"

namespace stretto::command {

/// The words behind the name of a command.
using Arguments = std::vector<std::string>;

/// A command, or a group of them; the program is a group of groups and commands. A group has a `table`; a command is
/// made by make_command(), which adds its two functions.
struct Subcommand {
  std::string name;
  std::string summary;         ///< a line, for the --help of the group it is in
  std::string introduction{};  ///< the first sentence of its own --help; empty: the summary
  /// Of two commands of one name: an option, with its value, that must be given for this one, "--program PROGRAM", or a
  /// word that must stand first and that it is run without, "plan". The other one stands before it.
  std::string with{};
  /// Where `with` is a word: an option that, given anywhere, takes its place.
  std::string or_with{};
  /// Where `with` is no option: whether a word is such a value. One that is given makes it this command.
  bool (*is_value)(const std::string& word) = nullptr;
  std::vector<Subcommand> table{};

  /// `full_name`: as it is typed, "stretto bench spin".
  std::function<Help(const std::string& full_name)> help{};
  /// Returns an exit code (exit_code.h). Throws as guarded() expects it.
  std::function<int(const std::string& full_name, const Arguments& arguments)> run{};
};

/// Makes a command of its texts. Before each use `describe(line, options)` says its options, whose setters write into
/// `options`, a copy of `defaults`; once they are parsed, `run(options)` does what the command does and returns an exit
/// code. Of several functions of a name those are taken that have these parameters.
template <class Options, class Describe = void (*)(CommandLine& line, Options& options),
          class Run = int (*)(const Options& options)>
Subcommand make_command(Subcommand texts, Options defaults, Describe describe, Run run) {
  Subcommand command = std::move(texts);
  const std::string introduction = command.introduction.empty() ? command.summary : command.introduction;
  command.help = [=](const std::string& full_name) {
    Options options = defaults;
    CommandLine line(full_name, introduction);
    describe(line, options);
    return line.help();
  };
  command.run = [=](const std::string& full_name, const Arguments& arguments) {
    Options options = defaults;
    CommandLine line(full_name, introduction);
    describe(line, options);
    return line.parse(arguments) ? static_cast<int>(run(options)) : kSuccess;
  };
  return command;
}

/// The help of a command or a group.
Help help_of(const Subcommand& subcommand, const std::string& full_name);

/// Calls `visit` with the help of the program, its groups and its commands, each before those below it.
void for_each_help(const Subcommand& program, const std::function<void(const Help& help)>& visit);

/// Runs the command of `program` that `arguments` begin with, or explains the program. An exception becomes a line on
/// standard error.
int dispatch(const Subcommand& program, const Arguments& arguments);

}  // namespace stretto::command
