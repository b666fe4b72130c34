#include "command/curves.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "command/process.h"
#include "stretto/observe/run_folder.h"

namespace stretto::command {

namespace fs = std::filesystem;

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

std::string write_curves(const std::string& folder, std::span<const RunGroup> groups) {
  using namespace std::chrono_literals;
  const fs::path csv = fs::path(folder) / "curves.csv";
  if (const auto written = write_whole_file(csv.string(), curves_csv(groups)); !written) {
    return fmt::format("no curves: {}", written.error().message);
  }
  const std::string script = find_companion("plot_curves.py");
  const std::string python = find_python();
  if (script.empty() || python.empty()) return fmt::format("curves: {} (no SVG: no python3)", csv.string());
  if (const auto drawn = run_program({python, script, csv.string()}, {"MPLBACKEND=svg"}, 60s); !drawn) {
    return fmt::format("curves: {} (no SVG: matplotlib is not in .venv, nor in {})", csv.string(), python);
  }
  return fmt::format("curves: {}/curves.csv, curves-batches.svg, curves-time.svg", folder);
}

}  // namespace stretto::command
