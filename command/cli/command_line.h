#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command/cli/values.h"

namespace stretto::command {

/// The options of one subcommand: how they are parsed and how --help explains them. Lies over CLI11, whose errors
/// become one line that names the value, the values expected, and one that would work.
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
  /// `name` with its dashes, `value` as --help shows it ("N"), `help`: its meaning, its default, and the cost of other
  /// values.
  void option(const std::string& name, const std::string& value, const std::string& help, Setter set);
  /// Takes a value only with "=": `set` gets an empty text without one. `value` is empty where none is allowed.
  void flag(const std::string& name, const std::string& value, const std::string& help, Setter set);

  /// Options that follow stand under this heading in --help.
  void heading(std::string title);
  void example(std::string line, std::string meaning);
  /// Things with names, explained behind the options.
  void topic(std::string title, std::vector<std::pair<std::string, std::string>> entries);
  /// A paragraph at the end of --help.
  void note(std::string paragraph);

  /// Calls the setters of the options given. Where help is asked for, prints it to standard output, calls no setter and
  /// returns false. Throws UsageError.
  bool parse(const std::vector<std::string>& args);

  std::string help() const;
  /// What -h shows: the names of the options, and one example.
  std::string short_help() const;
  const std::string& name() const { return name_; }

 private:
  class Impl;
  std::string name_;
  std::unique_ptr<Impl> impl_;
};

/// `text` in lines of at most `width`, each line but the first behind `indent` spaces.
std::string wrap(const std::string& text, std::size_t indent, std::size_t width);

}  // namespace stretto::command
