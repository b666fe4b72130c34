#include "command/cli/subcommand.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <utility>

#include "command/cli/command_line.h"
#include "command/cli/exit_code.h"
#include "command/cli/print.h"
#include "stretto/base/error.h"
#include "stretto/base/words/suggest.h"

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

void print_overview(std::FILE* out, const std::string& program, const std::string& introduction,
                    std::span<const Subcommand> table) {
  print_to(out, fmt::format("{}\n\nUsage: {} COMMAND [OPTIONS]\n\n", wrap(introduction, 0, 100), program));
  for (const Subcommand& subcommand : table) {
    print_to(out, fmt::format("  {:<12}{}\n", subcommand.name, wrap(subcommand.summary, 14, 100)));
  }
  print_to(out, fmt::format("\n`{} COMMAND --help` explains a command and shows examples.\n", program));
}

}  // namespace

int dispatch(const std::string& program, const std::string& introduction, std::span<const Subcommand> table,
             const Arguments& arguments) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that would become too large is an error of its write
  const std::string first = arguments.empty() ? std::string() : arguments.front();
  if (first.empty()) {
    print_overview(stderr, program, introduction, table);
    return kBadInput;
  }
  std::vector<std::string> known;
  for (const Subcommand& subcommand : table) {
    known.emplace_back(subcommand.name);
    if (first != subcommand.name) continue;
    const Arguments rest(arguments.begin() + 1, arguments.end());
    return guarded(program + " " + first, [&] { return subcommand.run(rest); });
  }
  return guarded(program, [&]() -> int {
    if (first == "--help" || first == "-h" || first == "help") {
      print_overview(stdout, program, introduction, table);
      return kSuccess;
    }
    if (first == "--version") {
      print_to(stdout, fmt::format("stretto {}\n", STRETTO_VERSION));
      return kSuccess;
    }
    throw UsageError(fmt::format("unknown {} {}: {}", first.starts_with('-') ? "option" : "command", first,
                                 suggestion(first, known)));
  });
}

}  // namespace stretto::command
