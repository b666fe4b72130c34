#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {

/// A table of numbers.
struct CsvTable {
  std::size_t columns = 0;
  std::vector<float> values;  ///< [row][column]

  std::size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
  const float* row(std::size_t i) const { return values.data() + i * columns; }
};

/// Comma-separated numbers, as many on each line, no header. Errc::bad_input names `name` and the line.
Result<CsvTable> parse_csv(std::string_view content, std::string_view name);

}  // namespace stretto
