
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <sstream>

#include "command/bench/timed_allreduce.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/machine/programs.h"
#include "stretto/observe/run_folder.h"
#include "stretto/observe/whole_file.h"

namespace stretto::command {

namespace {

namespace fs = std::filesystem;

struct PlotCommand {
  std::vector<std::string> files;
  std::string folder = ".";
};

void describe_options(CommandLine& line, PlotCommand& command) {
  line.positional_list("FILE", "what `stretto bench allreduce --csv FILE` has written",
                       [&command](std::string_view, const std::string& text) { command.files.push_back(text); });
  line.option("--out", "DIR", "Where allreduce.png, allreduce.svg and allreduce.csv (the medians) go. Default: here.",
              into(command.folder));
  line.example("stretto bench plot small.csv large.csv --out plots", "Several runs in one picture.");
  line.note(
      "Latency and bus bandwidth over size: a line for each library, a panel for each number of ranks; bands are the "
      "95 % intervals of the medians. Needs matplotlib, in .venv or in the python3 on PATH. Repetitions count as they "
      "do in the table of bench allreduce.");
}

std::string read_whole(const std::string& file) {
  const auto content = read_whole_file(file);
  if (content && !content->empty()) return *content;
  throw UsageError(fmt::format("{}; expected a file that `stretto bench allreduce --csv FILE` has written",
                               content ? file + ": is empty" : content.error().message));
}

constexpr double kMostRanks = 1e6;
constexpr double kMostRepetitions = 1e9;

// The numbers of one line, by the name of their column.
class Row {
 public:
  Row(const std::vector<std::string>& columns, const std::string& line, std::string where) : where_(std::move(where)) {
    const std::vector<std::string> cells = split_list(line);
    if (cells.size() != columns.size()) {
      throw UsageError(
          fmt::format("{}: expected {} values, one for each column, not {}", where_, columns.size(), cells.size()));
    }
    for (std::size_t i = 0; i < columns.size(); ++i) cells_[columns[i]] = cells[i];
  }

  const std::string& text(const std::string& column) const { return cells_.at(column); }
  double number(const std::string& column, double low, double high = 1e18) const {
    const std::string& cell = text(column);
    double value = 0;
    const auto [rest, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error == std::errc() && rest == cell.data() + cell.size() && value >= low && value <= high) {
      return value;
    }
    throw UsageError(fmt::format("{}: {} is '{}', expected a number from {} to {}", where_, column, cell, low, high));
  }

 private:
  const std::string where_;
  std::map<std::string, std::string> cells_;
};

int run(const PlotCommand& command) {
  MeasuredAllreduces measured;
  for (const std::string& file : command.files) measured.add(file, read_whole(file));
  require_writable_folder("--out", command.folder);
  require_matplotlib("plot");
  const std::string medians = (fs::path(command.folder) / "allreduce.csv").string();
  write_whole_file(medians, measured.medians_csv()).or_throw();
  if (const std::string why = draw("plot_allreduce.py", {medians}); !why.empty()) throw Failure({Errc::io, why});
  print_to(stdout, fmt::format("{0}/allreduce.png\n{0}/allreduce.svg\n{0}/allreduce.csv\n", command.folder));
  return kSuccess;
}

}  // namespace

void MeasuredAllreduces::add(const std::string& file, const std::string& csv) {
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> columns = split_list(line);
  for (const char* needed : {"library", "ranks", "bytes", "repetition", "microseconds", "background"}) {
    if (std::ranges::find(columns, needed) != columns.end()) continue;
    throw UsageError(
        fmt::format("{}: has no column '{}'; expected a file that `stretto bench allreduce --csv FILE` has "
                    "written",
                    file, needed));
  }
  const std::size_t before = samples.size();
  for (int number = 2; std::getline(lines, line); ++number) {
    const Row row(columns, line, fmt::format("{}, line {}", file, number));
    const auto known = std::ranges::find(libraries, row.text("library"));
    const auto library = static_cast<std::size_t>(known - libraries.begin());
    if (known == libraries.end()) libraries.push_back(row.text("library"));
    const int ranks = static_cast<int>(row.number("ranks", 1, kMostRanks));
    const auto bytes = static_cast<std::uint64_t>(row.number("bytes", 1));
    const double microseconds = row.number("microseconds", 1e-6);
    samples.push_back({library,
                       static_cast<int>(row.number("repetition", 0, kMostRepetitions)),
                       row.text("background") == "nan" ? 0 : row.number("background", 0),
                       {ranks, bytes, {microseconds, bus_bandwidth(ranks, bytes, microseconds)}}});
  }
  if (samples.size() == before) throw UsageError(fmt::format("{}: has no measurement in it", file));
}

std::string MeasuredAllreduces::medians_csv() const {
  std::vector<Comparison::Case> cases;
  for (const Sample& sample : samples) {
    const Comparison::Case at{sample.reading.ranks, sample.reading.bytes};
    if (std::ranges::find(cases, at) == cases.end()) cases.push_back(at);
  }
  std::ranges::sort(
      cases, [](const auto& a, const auto& b) { return std::pair(a.ranks, a.bytes) < std::pair(b.ranks, b.bytes); });
  std::string out = "library,ranks,bytes,microseconds,low,high,gb_per_s\n";
  for (std::size_t library = 0; library < libraries.size(); ++library) {
    for (const Comparison::Case& at : cases) {
      const Figure time = figure_of(samples, library, at, 0);
      if (time.repetitions == 0) continue;
      out += fmt::format("{},{},{},{:.7g},{:.7g},{:.7g},{:.7g}\n", libraries[library], at.ranks, at.bytes,
                         time.value.estimate, time.value.low, time.value.high,
                         figure_of(samples, library, at, 1).value.estimate);
    }
  }
  return out;
}

Subcommand bench_plot_command() {
  return make_command({.name = "plot", .summary = "Draws latency and bandwidth of allreduces over their size."},
                      PlotCommand(), describe_options, run);
}

}  // namespace stretto::command
