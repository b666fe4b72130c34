#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "command/machine/programs.h"
#include "command/train/compare_program.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".py";

}  // namespace

bool names_python_file(const std::string& word) {
  return !word.starts_with('-') && (word.ends_with(kEnding) || word.find(".py:") != std::string::npos);
}

PythonFunction parse_python_function(const std::string& written) {
  const std::size_t colon = written.rfind(".py:");
  if (colon == std::string::npos || colon == 0 || colon + kEnding.size() + 1 == written.size()) {
    throw UsageError(fmt::format("{}: expected FILE.py:FUNCTION, as in train.py:train", written));
  }
  const std::string file = written.substr(0, colon + kEnding.size());
  std::error_code error;
  if (!fs::is_regular_file(file, error)) throw UsageError(fmt::format("{}: there is no file {}", written, file));
  return {fs::absolute(file).string(), written.substr(colon + kEnding.size() + 1)};
}

std::string python_interpreter(const std::string& given) {
  const char* own = std::getenv("STRETTO_PYTHON");
  const std::string named = !given.empty() ? given : own != nullptr ? own : "";
  std::string found =
      named.empty() ? find_python() : (named.find('/') == std::string::npos ? find_on_path(named) : named);
  if (!found.empty() && ::access(found.c_str(), X_OK) == 0) return found;
  throw UsageError(named.empty() ? std::string("there is no python3 on PATH: --python names one")
                                 : fmt::format("{} {}: there is no such program",
                                               given.empty() ? "STRETTO_PYTHON" : "--python", named));
}

void require_function(const std::string& interpreter, const PythonFunction& function) {
  const auto said =
      run_program({interpreter, "-m", "stretto._compare_entry", "--check", function.file, function.function}, {},
                  std::chrono::minutes(2));
  if (!said) {
    throw UsageError(fmt::format(
        "{} cannot import stretto: `pip install` it there, or name another interpreter by --python", interpreter));
  }
  if (!said->empty()) throw UsageError(said->substr(0, said->find('\n')));
}

}  // namespace stretto::command
