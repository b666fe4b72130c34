#include "command/schedule/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "command/cli/command_line.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"

namespace stretto::command {

namespace {

constexpr std::size_t kLinesIndent = 2, kLinesWidth = 100;
constexpr std::uint64_t kFloatBytes = 4;

struct GridCommand {
  int nodes = 10;
  GridOptions options;
  std::string layout = "rectangle";
  std::uint64_t elements = 1024;
};

void describe_options(CommandLine& line, GridCommand& command) {
  constexpr int kMostNodes = 1024;
  line.heading("The grid");
  line.option("--nodes", "N", "How many there are, at least 2^D. Default 10.",
              into(command.nodes, 1, kMostNodes, "10"));
  line.option(
      "--layout", "NAME",
      "rectangle (default): columns are filled one after the other, so that any two nodes are as many hops apart "
      "as there are dimensions. paper: as many rows as columns, the diagonal first, so that lines differ by one "
      "node at most; up to four hops.",
      one_of(command.layout, {"rectangle", "paper"}));
  line.option("--dimensions", "D",
              "Of a rectangle. More make lines shorter, so that a round has fewer messages, and values take more hops. "
              "Default 2.",
              into(command.options.dimensions, 1, 10, "2"));
  line.option("--rows", "R",
              "Of a rectangle: how many nodes a column has; 1 makes one line of all. Default: about the root of their "
              "number.",
              into(command.options.rows, 1, kMostNodes, "3"));
  line.option("--elements", "E", "Float32 of the model, of which each node of a line averages a slice. Default 1024.",
              into(command.elements, 1, "1024"));
  line.example("stretto schedule grid --nodes 10", "Who averages with whom, and what a round of each line costs.");
  line.example("stretto schedule grid --nodes 64 --dimensions 3 --elements 25000000", "A cube of 64 nodes.");
}

int run_grid(const GridCommand& given) {
  GridCommand command = given;
  if (command.layout == "paper") command.options.shape = GridShape::paper;
  const GridLayout layout(command.nodes, command.options);
  layout.require_elements(command.elements);
  print_to(stdout, grid_text(layout, command.elements));
  return kSuccess;
}

/// Rows and columns by the first two digits, a picture for each value of the others. One dimension is a row.
std::string picture(const GridLayout& layout) {
  std::map<std::vector<int>, std::map<std::pair<int, int>, int>> layers;
  int columns = 0;
  for (int place = 0; place < layout.nodes(); ++place) {
    std::vector<int> digits = layout.digits(place);
    if (digits.size() == 1) digits.insert(digits.begin(), 0);
    columns = std::max(columns, digits[1] + 1);
    layers[{digits.begin() + 2, digits.end()}][{digits[0], digits[1]}] = place;
  }
  const std::size_t width = std::to_string(layout.nodes() - 1).size() + 1;
  std::string out;
  for (const auto& [digits, places] : layers) {
    if (!digits.empty()) out += fmt::format("layer {}\n", fmt::join(digits, ", "));
    for (int row = 0; row <= places.rbegin()->first.first; ++row) {
      std::string line;
      for (int column = 0; column < columns; ++column) {
        const auto found = places.find({row, column});
        line += fmt::format("{:>{}}", found == places.end() ? "·" : std::to_string(found->second), width);
      }
      out += line + "\n";
    }
    out += "\n";
  }
  return out;
}

/// What the nodes of a line send each other in a round of it: a slice of its model to each other node, and the mean of
/// its own slice.
struct Traffic {
  std::uint64_t messages = 0, bytes = 0, of_start = 0;

  void add_line(std::uint64_t peers, std::uint64_t elements) {
    messages += 2 * peers * (peers - 1);
    bytes += 2 * (peers - 1) * elements * kFloatBytes;
    of_start += 2 * (peers - 1);
  }
};

}  // namespace

std::string grid_text(const GridLayout& layout, std::uint64_t elements) {
  std::string out = picture(layout);
  Traffic traffic;
  std::uint64_t num_lines = 0;
  for (int dimension = 0; dimension < layout.dimensions(); ++dimension) {
    std::string lines;
    for (const std::vector<int>& line : layout.lines(dimension)) {
      lines += fmt::format("{}{{{}}}", lines.empty() ? "" : " ", fmt::join(line, ","));
      if (line.size() == 1) continue;
      ++num_lines;
      traffic.add_line(line.size(), elements);
    }
    out += wrap(fmt::format("dimension {}: {}", dimension, lines), kLinesIndent, kLinesWidth) + "\n";
  }
  const auto nodes = static_cast<std::uint64_t>(layout.nodes());
  return out + fmt::format(
                   "\n{} nodes in {} lines of two or more, {} hops at most\n"
                   "a round of each line: {} messages with {} bytes in all, {} bytes a node in the mean, each way;\n"
                   "headers of these messages, and {} small ones that begin and end rounds, come on top\n",
                   nodes, num_lines, layout.hops(), traffic.messages, traffic.bytes, traffic.bytes / nodes,
                   traffic.of_start);
}

Subcommand schedule_grid_command() {
  return make_command(
      {.name = "schedule",
       .summary = "Prints the lines of an elastic grid, and what a round of them costs.",
       .introduction = "Prints where the nodes of an elastic grid sit, which of them average models with "
                       "each other, and what that costs.",
       .with = "grid"},
      GridCommand(), describe_options, run_grid);
}

}  // namespace stretto::command
