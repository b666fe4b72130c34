#include "command/machine/drawing.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "command/machine/process.h"
#include "stretto/base/error.h"
#include "stretto/observe/whole_file.h"

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

Drawn write_and_draw(const std::string& csv, const std::string& content, const std::string& script,
                     const std::string& pictures) {
  if (const auto written = write_whole_file(csv, content); !written) {
    return {fmt::format("no {}: {}", std::filesystem::path(csv).filename().string(), written.error().message)};
  }
  const std::string why = draw(script, {csv});
  if (!why.empty()) return {fmt::format("{} (no SVG: {})", csv, why)};
  return {fmt::format("{}, {}", csv, pictures), true};
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
