#include "command/schedule/mixing.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "command/cli/command_line.h"
#include "command/cli/table.h"
#include "stretto/collective/groups/groups.h"

namespace stretto::command {

namespace {

constexpr std::size_t kIndent = 7;
constexpr std::size_t kWidth = 100;
constexpr int kRounds = 12;
constexpr double kNothing = 1e-12;  // what rounding leaves of nothing

std::string number(std::optional<int> rounds) {
  return rounds ? std::to_string(*rounds) : "never";
}

constexpr char kStays = '\x1f';  // a space at which no line is broken

/// "2: 13 (6)", "6–35: 2".
std::string cell(int least, int most, const std::pair<std::optional<int>, int>& mixing) {
  const auto& [rounds, cycle] = mixing;
  const std::string sizes = least == most ? std::to_string(least) : fmt::format("{}–{}", least, most);
  std::string out = fmt::format("{}: {}", sizes, number(rounds)) + (rounds == cycle ? "" : fmt::format(" ({})", cycle));
  std::ranges::replace(out, ' ', kStays);
  return out;
}

std::string row(int ranks, GroupOrder order) {
  std::string out;
  std::optional<std::pair<std::optional<int>, int>> before;
  int least = 2;
  const auto add = [&](int most) { out += (out.empty() ? "" : ", ") + cell(least, most, *before); };
  for (int size = 2; size <= ranks; ++size) {
    const Groups groups(ranks, size, order);
    const std::pair mixing(mixing_number(groups), groups.cycle());
    if (before && mixing != *before) {
      add(size - 1);
      least = size;
    }
    before = mixing;
  }
  add(ranks);
  out = wrap(out, kIndent, kWidth);
  std::ranges::replace(out, kStays, ' ');
  return out;
}

}  // namespace

std::string mixing_table(int least, int most, GroupOrder order) {
  std::string out =
      "Rounds until what each rank had has reached every rank, at worst: the mixing number M, after the\n"
      "group size S as S: M. Where it is larger than the fewest there can be, these are in brackets.\n\n"
      "ranks  group size: rounds\n";
  for (int ranks = least; ranks <= most; ++ranks) {
    out += fmt::format("{:>5}  {}\n", ranks, row(ranks, order));
  }
  return out;
}

std::string distance_table(const Groups& groups) {
  const auto distances = consensus_distances(groups, kRounds);
  Table table({"rounds", "distance", "of that before"});
  for (std::size_t i = 0; i < distances.size(); ++i) {
    const auto shown = [](double value) { return value < kNothing ? "0" : fmt::format("{:.3g}", value); };
    const bool has_share = i > 0 && distances[i - 1] >= kNothing;
    table.add({std::to_string(i), shown(distances[i]), has_share ? shown(distances[i] / distances[i - 1]) : ""});
  }
  return fmt::format("{} ranks in {} groups of {} at most, {}: M = {}, L = {}\n", groups.ranks(), groups.count(),
                     groups.group_size(), groups.order() == GroupOrder::dynamic ? "dynamic" : "fixed",
                     number(mixing_number(groups)), groups.cycle()) +
         "Distance from the consensus: one rank begins at 1, the others at 0, and each takes the mean of its\n"
         "group; the root mean square of what the ranks are off the mean of all, as a share of that at first,\n"
         "for the worst rank and first round.\n\n" +
         table.to_text();
}

}  // namespace stretto::command
