#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace stretto::command {

/// The words behind the name of a subcommand.
using Arguments = std::vector<std::string>;

/// One line of the table of subcommands.
struct Subcommand {
  const char* name;
  const char* summary;                       ///< for --help
  std::function<int(const Arguments&)> run;  ///< returns an exit code (exit_code.h)
};

/// Runs the subcommand that `arguments` begin with, or explains the program. An exception becomes a line on standard
/// error.
int dispatch(const std::string& program, const std::string& introduction, std::span<const Subcommand> table,
             const Arguments& arguments);

}  // namespace stretto::command
