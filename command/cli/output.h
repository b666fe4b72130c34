#pragma once

#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "command/cli/command_line.h"

namespace stretto::command {

/// Writes `text` to a standard stream. Never throws: what cannot be written to standard error is lost, and of standard
/// output guarded() says so at the end.
void print_to(std::FILE* stream, std::string_view text);

/// The text as one line for a person: control characters are escaped, words of more than 200 bytes cut.
std::string one_line(std::string_view text);

/// Where results go: text for a person, and one JSON object where --json asks for it. With --json alone the object is
/// all that standard output gets, and the text goes to standard error.
class Output {
 public:
  /// Adds --json to `line`; this object must outlive the parsing.
  void add_option(CommandLine& line);

  /// Text for a person; ends its line.
  void say(const std::string& text) const;
  /// Requires: at most once. Throws Failure when the file cannot be written.
  void emit(const nlohmann::ordered_json& object) const;

 private:
  bool json_ = false;
  std::string file_;  // empty: standard output
};

/// Asked for before a run, so that its result is not lost to a misspelt folder at its end. Throws UsageError when the
/// file cannot be written; leaves none where there was none.
void require_writable_file(std::string_view option, const std::string& file);

/// Sets `out` to the name of a file that can be written (require_writable_file()).
Setter writable_file_into(std::string& out);

/// Creates the folder where it is missing. Throws UsageError when nothing can be written there.
void require_writable_folder(std::string_view option, const std::string& folder);

}  // namespace stretto::command
