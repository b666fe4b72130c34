#include "command/subcommand.h"

#include <fmt/format.h>

#include <cstdio>

#include "command/command_line.h"
#include "command/exit_code.h"
#include "command/suggest.h"
#include "stretto/base/error.h"

namespace stretto::command {

int dispatch(const std::string& program, const std::string& introduction, std::span<const Subcommand> table,
             const Arguments& arguments) {
  const std::string first = arguments.empty() ? std::string() : arguments.front();
  if (first.empty() || first == "--help" || first == "-h" || first == "help") {
    std::FILE* out = first.empty() ? stderr : stdout;
    fmt::print(out, "{}\n\nUsage: {} COMMAND [OPTIONS]\n\n", wrap(introduction, 0, 100), program);
    for (const Subcommand& subcommand : table) {
      fmt::print(out, "  {:<12}{}\n", subcommand.name, wrap(subcommand.summary, 14, 100));
    }
    fmt::print(out, "\n`{} COMMAND --help` explains a command and shows examples.\n", program);
    return first.empty() ? kBadInput : kSuccess;
  }
  if (first == "--version") {
    fmt::print("stretto {}\n", STRETTO_VERSION);
    return kSuccess;
  }
  std::vector<std::string> known;
  for (const Subcommand& subcommand : table) {
    known.emplace_back(subcommand.name);
    if (first != subcommand.name) continue;
    const Arguments rest(arguments.begin() + 1, arguments.end());
    return guarded(program + " " + first, [&] { return subcommand.run(rest); });
  }
  return guarded(program, [&]() -> int {
    throw UsageError(fmt::format("unknown {} {}: {}", first.starts_with('-') ? "option" : "command", first,
                                 suggestion(first, known)));
  });
}

}  // namespace stretto::command
