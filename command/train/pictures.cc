#include "command/train/pictures.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "command/machine/process.h"
#include "command/train/report.h"
#include "stretto/observe/run_folder.h"

namespace stretto::command {

namespace fs = std::filesystem;

namespace {

/// Why a script that belongs to this program could not draw; empty where it could.
std::string draw(const std::string& script, const std::vector<std::string>& arguments) {
  const std::string path = find_companion(script);
  const std::string python = find_python();
  if (path.empty() || python.empty()) return "no python3";
  std::vector<std::string> command{python, path};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (!run_program(command, {"MPLBACKEND=svg"}, std::chrono::minutes(1))) {
    return fmt::format("matplotlib is not in .venv, nor in {}", python);
  }
  return {};
}

/// The arguments of plot_waiting.py: the first algorithm, and the best of the others. `inside`: where in the folder of
/// a run its records are.
std::vector<std::string> lanes_of(const fs::path& folder, std::span<const RunGroup> groups, const std::string& inside) {
  std::vector<std::string> arguments{folder / "waiting.svg"};
  const auto add = [&](const RunGroup& group) {
    const fs::path of_comparison = folder / run_folder_name(group, group.runs.front().seed);
    arguments.push_back(group.label);
    arguments.push_back((fs::exists(of_comparison) ? of_comparison : folder) / inside);
  };
  add(groups.front());
  if (groups.size() > 1) add(best_of(groups));
  return arguments;
}

}  // namespace

std::string curves_csv(std::span<const RunGroup> groups) {
  std::string out = "algorithm,seed,batches,seconds,loss\n";
  for (const RunGroup& group : groups) {
    // A label may have a comma of its own.
    const std::string label =
        group.label.find(',') == std::string::npos ? group.label : fmt::format("\"{}\"", group.label);
    for (const RunSummary& run : group.runs) {
      for (const RunSummary::CurvePoint& point : run.curve) {
        out += fmt::format("{},{},{},{:.6g},{:.9g}\n", label, run.seed, point.batches, point.seconds, point.loss);
      }
    }
  }
  return out;
}

std::string write_pictures(const std::string& folder, std::span<const RunGroup> groups) {
  const fs::path csv = fs::path(folder) / "curves.csv";
  if (const auto written = write_whole_file(csv.string(), curves_csv(groups)); !written) {
    return fmt::format("no curves: {}", written.error().message);
  }
  std::string why = draw("plot_curves.py", {csv.string()});
  if (why.empty()) why = draw("plot_waiting.py", lanes_of(folder, groups, {}));
  if (!why.empty()) return fmt::format("curves: {} (no SVG: {})", csv.string(), why);
  return fmt::format("{0}/waiting.svg: who waits for whom; {0}/curves.csv, curves-batches.svg, curves-time.svg",
                     folder);
}

std::string write_waiting(const std::string& folder, std::span<const RunGroup> groups, const std::string& inside) {
  const std::string why = draw("plot_waiting.py", lanes_of(folder, groups, inside));
  return why.empty() ? folder + "/waiting.svg: who waits for whom" : fmt::format("no picture: {}", why);
}

}  // namespace stretto::command
