#include "command/run/why_not_started.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "stretto/base/machine/process_limits.h"

namespace stretto::command {

namespace {

bool is_file(const std::string& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none);
}

}  // namespace

std::string why_not_started(const std::string& program, int error) {
  const bool by_path = program.find('/') != std::string::npos;
  if (error == ENOENT && by_path && is_file(program)) {
    return fmt::format("{}: the interpreter that its first line names is not there", program);
  }
  std::string hint;
  if (is_file(program) && program.ends_with(".py")) {
    hint = fmt::format("; did you mean -- python {}?", program);
  } else if (!by_path && is_file(program)) {
    hint = fmt::format("; did you mean ./{}?", program);
  }
  if (error == ENOENT) return fmt::format("{}: there is no such program{}{}", program, by_path ? "" : " on PATH", hint);
  if (error == EACCES) return fmt::format("{}: it cannot be run (no executable file){}", program, hint);
  return fmt::format("{}: it cannot be run: {}", program, why_no_process(error));
}

}  // namespace stretto::command
