#include "workloads/csv_table.h"

#include <charconv>
#include <cmath>

namespace stretto {
Result<CsvTable> parse_csv(std::string_view content, std::string_view name) {
  CsvTable table;
  int line = 0;
  while (!content.empty()) {
    ++line;
    const auto end_of_line = content.find('\n');
    std::string_view rest = content.substr(0, end_of_line);
    content = end_of_line == std::string_view::npos ? std::string_view() : content.substr(end_of_line + 1);
    if (!rest.empty() && rest.back() == '\r') rest.remove_suffix(1);
    std::size_t column = 0;
    for (bool more = true; more;) {
      const auto comma = rest.find(',');
      const std::string_view number = rest.substr(0, comma);
      more = comma != std::string_view::npos;
      if (more) rest.remove_prefix(comma + 1);
      ++column;
      float value = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
      if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(value)) {
        return Error{Errc::bad_input, text(name, ":", line, ": column ", column, " is not a number")};
      }
      table.values.push_back(value);
    }
    if (table.columns == 0) table.columns = column;
    if (column != table.columns) {
      return Error{Errc::bad_input,
                   text(name, ":", line, ": ", column, " columns; expected ", table.columns, " as on the first line")};
    }
  }
  return table;
}

}  // namespace stretto
