#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "command/command_line.h"

namespace stretto::command {

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

/// Creates the file where it is missing: asked for before a run, so that it is not lost to a misspelt folder at its
/// end. Throws UsageError when it cannot be written.
void require_writable_file(std::string_view option, const std::string& file);

/// Creates the folder where it is missing. Throws UsageError when nothing can be written there.
void require_writable_folder(std::string_view option, const std::string& folder);

}  // namespace stretto::command
