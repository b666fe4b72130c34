#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command/cli/help.h"
#include "command/cli/values.h"

namespace stretto::command {

/// The options of one command: how they are parsed and how they are explained. Lies over CLI11, whose errors become one
/// line that names the value, the values expected, and one that would work.
class CommandLine {
 public:
  /// `name` as it is typed: "stretto train". `summary` is the first sentence of --help.
  CommandLine(std::string name, std::string summary);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  enum class Presence { optional, required };
  void positional(const std::string& name, Presence presence, const std::string& help, Setter set);
  /// One or more; `set` is called for each. The last of the positionals.
  void positional_list(const std::string& name, const std::string& help, Setter set);
  /// `name` with its dashes, `value` as --help shows it ("N"; FILE, DIR and PROGRAM are completed as such), `help`: its
  /// meaning, its default, and the cost of other values. Throws UsageError for a name that another option has.
  void option(const std::string& name, const std::string& value, const std::string& help, Setter set);
  /// Takes a value only with "=": `set` gets an empty text without one. `value` is empty where none is allowed.
  void flag(const std::string& name, const std::string& value, const std::string& help, Setter set);
  /// All that follows "--" goes to `target`, which must outlive the parsing. Else there are positionals behind it.
  void rest(const std::string& name, std::vector<std::string>& target, Presence presence = Presence::optional);

  /// Options that follow stand under this heading in --help.
  void heading(std::string title);
  /// `line` as it is typed for `stretto`; --help of another program shows it with that one's name.
  void example(std::string line, std::string meaning);
  /// Things with names, explained behind the options.
  void topic(std::string title, std::vector<std::pair<std::string, std::string>> entries);
  /// A paragraph at the end of --help.
  void note(std::string paragraph);

  /// Calls the setters of the options given. Where help is asked for, prints it to standard output, calls no setter and
  /// returns false. Throws UsageError.
  bool parse(const std::vector<std::string>& args);

  /// The help as it has been described so far.
  const Help& help() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto::command
