#include "command/machine/drawing.h"

#include <fmt/format.h>

#include <chrono>

#include "command/machine/process.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr Duration kDrawing = std::chrono::minutes(5);  // on a machine that is busy

bool has_matplotlib(const std::string& python) {
  return run_program({python, "-c", "import matplotlib"}, {}, kDrawing).ok();
}

}  // namespace

std::string draw(const std::string& script, const std::vector<std::string>& arguments) {
  const std::string path = find_script(script);
  const std::string python = find_python();
  if (path.empty()) return fmt::format("{} is neither beside this program nor beside a stretto on PATH", script);
  if (python.empty()) return "no python3";
  std::vector<std::string> command{python, path};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const auto drawn = run_program(command, {"MPLBACKEND=svg"}, kDrawing);
  if (drawn) return {};
  return has_matplotlib(python) ? fmt::format("{}: {}", script, drawn.error().message)
                                : fmt::format("matplotlib is not in .venv, nor in {}", python);
}

void require_matplotlib(std::string_view asked) {
  const std::string python = find_python();
  if (!python.empty() && has_matplotlib(python)) return;
  throw UsageError(
      fmt::format("{}: matplotlib is missing {}; expected it in .venv or in the python3 on PATH "
                  "(pip install matplotlib)",
                  asked, python.empty() ? "(and there is no python3)" : fmt::format("in {}", python)));
}

}  // namespace stretto::command
