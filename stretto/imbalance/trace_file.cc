#include "stretto/imbalance/trace_file.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <istream>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/files/input_file.h"

namespace stretto {

namespace {

std::string_view trimmed(std::string_view field) {
  while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
  while (!field.empty() && field.back() == ' ') field.remove_suffix(1);
  return field;
}

template <class Number>
std::optional<Number> number_in(std::string_view field) {
  field = trimmed(field);
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

/// Where a row has what it is made of.
struct Columns {
  std::size_t step = 0, rank = 1, seconds = 2, all = 3;

  /// By the names in a header, in any order and case, beside others; nothing where one is missing or there twice.
  static std::optional<Columns> named(const std::vector<std::string_view>& header) {
    std::vector<std::string> names;
    for (const std::string_view field : header) {
      std::string name(trimmed(field));
      if (name.size() >= 2 && name.front() == '"' && name.back() == '"') name = name.substr(1, name.size() - 2);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      names.push_back(std::move(name));
    }
    Columns columns{.all = names.size()};
    for (const auto& [name, at] :
         {std::pair("step", &columns.step), std::pair("rank", &columns.rank), std::pair("seconds", &columns.seconds)}) {
      if (std::ranges::count(names, name) != 1) return std::nullopt;
      *at = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
    }
    return columns;
  }
};

/// The columns that a header behind a # names, as numpy.savetxt() writes it; nothing where the line is no comment, or
/// one of other words.
std::optional<Columns> named_in_comment(std::string_view line) {
  line = trimmed(line);
  if (!line.starts_with('#')) return std::nullopt;
  line.remove_prefix(1);
  return Columns::named(fields_of(line.substr(0, line.find('#'))));
}

}  // namespace

Result<void> read_trace_rows(const std::string& path, TakeTraceRow take) {
  auto opened = open_file(path);
  if (!opened) return opened.error();
  std::istream& file = opened->stream();
  std::string line;
  bool begun = false;
  Columns columns;
  for (std::uint64_t number = 1; std::getline(file, line); ++number) {
    const auto wrong = [&](const std::string& what) {
      return Error{Errc::bad_input, text("'", path, "' line ", number, " '", line.substr(0, 60), "': ", what)};
    };
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!begun) {
      if (const auto named = named_in_comment(line)) columns = *named;
    }
    const std::string_view content = std::string_view(line).substr(0, line.find('#'));
    if (content.find_first_not_of(' ') == std::string_view::npos) continue;
    const auto fields = fields_of(content);
    const bool first = !std::exchange(begun, true);
    if (first && content.find_first_of("0123456789") == std::string_view::npos) {
      const auto named = Columns::named(fields);
      if (!named) return wrong("expected a header with step, rank and seconds, in any order, or none");
      columns = *named;
      continue;
    }
    const bool complete = fields.size() == columns.all;
    const auto step = complete ? number_in<std::uint64_t>(fields[columns.step]) : std::nullopt;
    const auto rank = complete ? number_in<int>(fields[columns.rank]) : std::nullopt;
    const auto time = complete ? number_in<double>(fields[columns.seconds]) : std::nullopt;
    if (!step || !rank || !time) return wrong("expected step,rank,seconds such as 0,3,0.040");
    if (*rank < 0) return wrong("expected a rank of 0 or more");
    if (!(*time >= 0 && *time <= seconds(kLongestDuration))) {
      return wrong(text("expected seconds from 0 to ", seconds(kLongestDuration)));
    }
    const std::string fault = take({.step = *step, .rank = *rank, .seconds = *time, .end = opened->consumed()});
    if (!fault.empty()) return wrong(fault);
  }
  return opened->whole();
}

Result<std::vector<Duration>> read_trace_file(const std::string& path, int ranks) {
  constexpr std::uint64_t kMaxEntries = 100'000'000;
  constexpr Duration kUnset{-1};
  const auto width = static_cast<std::uint64_t>(ranks);
  std::vector<Duration> delays;
  const auto read = read_trace_rows(path, [&](const TraceRow& row) -> std::string {
    if (row.rank >= ranks) return text("rank ", row.rank, " is not one of 0 … ", ranks - 1);
    if (row.step >= kMaxEntries / width) return text("step beyond the largest possible, ", kMaxEntries / width - 1);
    if (delays.size() < (row.step + 1) * width) delays.resize((row.step + 1) * width, kUnset);
    Duration& entry = delays[row.step * width + static_cast<std::uint64_t>(row.rank)];
    if (entry != kUnset) return text("a second row for step ", row.step, " and rank ", row.rank);
    entry = Duration{std::llround(row.seconds * 1e9)};
    return {};
  });
  if (!read) return read.error();
  if (delays.empty()) return Error{Errc::bad_input, text("'", path, "' has no rows step,rank,seconds")};
  for (Duration& delay : delays) delay = std::max(delay, Duration{0});
  return delays;
}

}  // namespace stretto
