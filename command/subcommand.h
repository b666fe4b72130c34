#pragma once

#include <span>
#include <string>
#include <vector>

namespace stretto::command {

/// What stands behind the name of a subcommand; returns an exit code (exit_code.h).
using Arguments = std::vector<std::string>;

/// One line of the table of subcommands.
struct Subcommand {
  const char* name;
  const char* summary;  ///< for --help
  int (*run)(const Arguments& arguments);
};

/// Runs the subcommand that `arguments` begin with, or explains the program. What is thrown becomes a line on
/// standard error.
int dispatch(const std::string& program, const std::string& introduction, std::span<const Subcommand> table,
             const Arguments& arguments);

}  // namespace stretto::command
