
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "command/machine/programs.h"
#include "command/train/report.h"
#include "stretto/observe/run_folder.h"

namespace stretto::command {

namespace fs = std::filesystem;

namespace {

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

/// A field of a CSV file (RFC 4180).
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

std::string field(const std::optional<double>& number) {
  return number ? fmt::format("{:.9g}", *number) : std::string();
}

}  // namespace

std::string curves_csv(std::span<const RunGroup> groups) {
  std::string out = "algorithm,seed,batches,seconds,loss,test_loss,accuracy\n";
  for (const RunGroup& group : groups) {
    for (const RunSummary& run : group.runs) {
      const auto add = [&](std::uint64_t batches, double seconds, std::optional<double> loss,
                           std::optional<double> test_loss, std::optional<double> accuracy) {
        out += fmt::format("{},{},{},{:.6g},{},{},{}\n", field(group.label), run.seed, batches, seconds, field(loss),
                           field(test_loss), field(accuracy));
      };
      for (const auto& point : run.curve) add(point.batches, point.seconds, point.loss, {}, {});
      for (const auto& point : run.evaluations) add(point.batches, point.seconds, {}, point.loss, point.accuracy);
      const std::uint64_t evaluated = run.evaluations.empty() ? 0 : run.evaluations.back().batches;
      if (run.loss && run.final_batches > evaluated) {
        add(run.final_batches, run.wall_seconds, {}, run.loss, run.accuracy);
      }
    }
  }
  return out;
}

std::string throughput_csv(std::span<const RunGroup> groups) {
  std::string out = "algorithm,imbalance,ranks,seed,batches_per_second,no_communication\n";
  for (const RunGroup& group : groups) {
    for (const RunSummary& run : group.runs) {
      out += fmt::format("{},{},{},{},{:.7g},{:.7g}\n", field(group.label), field(group.options.imbalance), run.ranks,
                         run.seed, run.throughput, static_cast<double>(run.deposits.applied) / run.ideal_seconds);
    }
  }
  return out;
}

std::string write_pictures(const std::string& folder, std::span<const RunGroup> groups) {
  const Drawn curves = write_and_draw(fs::path(folder) / "curves.csv", curves_csv(groups), "plot_curves.py",
                                      "curves-batches.svg, curves-time.svg");
  return curves.pictures ? curves.sentence + "\n" + write_waiting(folder, groups, {}) : curves.sentence;
}

std::string write_waiting(const std::string& folder, std::span<const RunGroup> groups, const std::string& inside) {
  const std::string why = draw("plot_waiting.py", lanes_of(folder, groups, inside));
  return why.empty() ? folder + "/waiting.svg: who waits for whom" : fmt::format("no picture: {}", why);
}

std::string write_throughput(const std::string& folder, std::span<const RunGroup> groups) {
  return write_and_draw(fs::path(folder) / "throughput.csv", throughput_csv(groups), "plot_throughput.py",
                        "throughput.svg")
      .sentence;
}

}  // namespace stretto::command
