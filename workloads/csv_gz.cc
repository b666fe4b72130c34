#include "workloads/csv_gz.h"

#include <zlib.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>

#include "stretto/base/files/input_file.h"

namespace stretto {
namespace {

Error wrong(const std::string& path, const std::string& problem) {
  return {Errc::bad_input, text(path, ": ", problem)};
}

}  // namespace

Result<std::string> read_gz(const std::string& path) {
  if (const auto checked = check_file(path); !checked) return Error{Errc::bad_input, checked.error().message};
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), &gzclose);
  if (!file) return wrong(path, std::strerror(errno == 0 ? ENOMEM : errno));
  std::string content;
  std::array<char, 1 << 16> chunk;
  int got = 0;
  while ((got = gzread(file.get(), chunk.data(), chunk.size())) > 0) {
    content.append(chunk.data(), static_cast<std::size_t>(got));
  }
  // gzread also reads files that are not compressed, and returns a part of one that ends too early.
  if (gzdirect(file.get()) != 0) return wrong(path, "not compressed by gzip");
  int code = Z_OK;
  const char* reason = gzerror(file.get(), &code);
  if (code == Z_ERRNO) return wrong(path, std::strerror(errno));
  if (code == Z_BUF_ERROR) return wrong(path, "truncated: the compressed data ends too early");
  if (code != Z_OK) return wrong(path, text("damaged: ", reason));
  return content;
}

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
