#include "command/cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr double kLargest = 1e7;  // from here on powers of ten are easier to read

// Decimals that show `value` with `digits` significant digits.
int decimals_for(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  return std::clamp(digits - 1 - magnitude, 0, 9);
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  STRETTO_CHECK(cells.size() == headings_.size(), cells.size(), " cells, ", headings_.size(), " headings");
  rows_.push_back(std::move(cells));
}

std::string Table::to_text() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < headings_.size(); ++i) {
    widths.push_back(width_of(headings_[i]));
    for (const auto& row : rows_) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string out;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string padding(widths[i] - width_of(cells[i]), ' ');
      line += i == 0 ? cells[i] + padding : "  " + padding + cells[i];
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add_line(headings_);
  std::size_t total = 0;
  for (const std::size_t width : widths) total += width + 2;
  for (std::size_t i = 2; i < total; ++i) out += "─";
  out += "\n";
  for (const auto& row : rows_) add_line(row);
  return out;
}

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  if (std::abs(value) >= kLargest) return fmt::format("{:.{}e}", value, digits - 1);
  return fmt::format("{:.{}f}", value, decimals_for(value, digits));
}

std::string percent(double share, int decimals) {
  if (!std::isfinite(share)) return "–";
  return fmt::format("{:.{}f} %", 100 * share, decimals);
}

std::string with_spread(double value, double spread, int digits) {
  if (!std::isfinite(spread) || !(std::abs(value) < kLargest)) return significant(value, digits);
  const int decimals = std::max(decimals_for(value, digits), std::min(decimals_for(spread, 1), 4));
  return fmt::format("{:.{}f} ± {:.{}f}", value, decimals, spread, decimals);
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace stretto::command
