#pragma once

#include <string>
#include <vector>

namespace stretto::command {

/// A table for a person: a heading a column, the first column to the left, the others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}
  /// Requires: as many cells as headings.
  void add(std::vector<std::string> cells);
  std::string to_text() const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

/// "12.3", "0.00412": `digits` significant ones, "–" for NaN and infinity.
std::string significant(double value, int digits = 3);
/// "97.3 %", "–".
std::string percent(double share, int decimals = 1);
/// "12.3 ± 0.4" in the decimals that the spread makes meaningful; "12.3" without a spread.
std::string with_spread(double value, double spread, int digits = 3);
/// Characters, not bytes, of UTF-8.
std::size_t width_of(const std::string& text);

}  // namespace stretto::command
