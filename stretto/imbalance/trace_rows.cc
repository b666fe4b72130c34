#include "stretto/imbalance/trace_rows.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "stretto/imbalance/duration.h"

namespace stretto {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

template <class Number>
std::optional<Number> number_in(std::string_view field) {
  while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
  while (!field.empty() && field.back() == ' ') field.remove_suffix(1);
  Number value{};
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc{} || end != field.data() + field.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const auto comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<void> read_trace_rows(const std::string& path, TakeTraceRow take) {
  std::error_code unknown;
  if (const auto status = std::filesystem::status(path, unknown); exists(status) && !is_regular_file(status)) {
    return Error{Errc::io, text("cannot read '", path, "': it is no file")};
  }
  std::ifstream file(path);
  if (!file) return Error{Errc::io, text("cannot open '", path, "': ", std::strerror(errno))};

  std::string line;
  std::uint64_t read = 0;
  for (std::uint64_t number = 1; std::getline(file, line); ++number) {
    read += line.size() + (file.eof() ? 0 : 1);
    const auto wrong = [&](const std::string& what) {
      return Error{Errc::bad_input, text("'", path, "' line ", number, " '", line.substr(0, 60), "': ", what)};
    };
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    const std::string_view content = std::string_view(line).substr(0, line.find('#'));
    if (content.find_first_not_of(' ') == std::string_view::npos) continue;
    const auto fields = fields_of(content);
    if (number == 1 && content.find_first_of("0123456789") == std::string_view::npos) continue;
    const auto step = fields.size() == 3 ? number_in<std::uint64_t>(fields[0]) : std::nullopt;
    const auto rank = fields.size() == 3 ? number_in<int>(fields[1]) : std::nullopt;
    const auto time = fields.size() == 3 ? number_in<double>(fields[2]) : std::nullopt;
    if (!step || !rank || !time) return wrong("expected step,rank,seconds such as 0,3,0.040");
    if (*rank < 0) return wrong("expected a rank of 0 or more");
    if (!(*time >= 0 && *time <= seconds(kLongestDuration))) {
      return wrong(text("expected seconds from 0 to ", seconds(kLongestDuration)));
    }
    const std::string fault = take({.step = *step, .rank = *rank, .seconds = *time, .end = read});
    if (!fault.empty()) return wrong(fault);
  }
  if (file.bad()) return Error{Errc::io, text("cannot read '", path, "': ", std::strerror(errno))};
  return {};
}

}  // namespace stretto
