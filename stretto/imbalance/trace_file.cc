#include "stretto/imbalance/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "stretto/imbalance/duration.h"

namespace stretto {
namespace {

constexpr std::uint64_t kMaxEntries = 100'000'000;
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

Result<std::vector<Duration>> read_trace_file(const std::string& path, int ranks) {
  std::error_code unknown;
  if (const auto status = std::filesystem::status(path, unknown); exists(status) && !is_regular_file(status)) {
    return Error{Errc::io, text("cannot read '", path, "': it is no file")};
  }
  std::ifstream file(path);
  if (!file) return Error{Errc::io, text("cannot open '", path, "': ", std::strerror(errno))};

  constexpr Duration kUnset{-1};
  std::vector<Duration> delays;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const auto wrong = [&](const std::string& what) {
      return Error{Errc::bad_input, text("'", path, "' line ", number, " '", line.substr(0, 60), "': ", what)};
    };
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    const std::string_view content = std::string_view(line).substr(0, line.find('#'));
    if (content.find_first_not_of(' ') == std::string_view::npos) continue;
    const auto fields = fields_of(content);
    const auto step = number_in<std::uint64_t>(fields[0]);
    if (number == 1 && content.find_first_of("0123456789") == std::string_view::npos) continue;
    const auto rank = fields.size() == 3 ? number_in<int>(fields[1]) : std::nullopt;
    const auto delay = fields.size() == 3 ? number_in<double>(fields[2]) : std::nullopt;
    if (!step || !rank || !delay) return wrong("expected step,rank,seconds such as 0,3,0.040");
    if (*rank < 0 || *rank >= ranks) return wrong(text("rank ", *rank, " is not one of 0 … ", ranks - 1));
    if (!(*delay >= 0 && *delay <= seconds(kLongestDuration))) {
      return wrong(text("expected seconds from 0 to ", seconds(kLongestDuration)));
    }
    const auto width = static_cast<std::uint64_t>(ranks);
    if (*step >= kMaxEntries / width) return wrong(text("step beyond the largest possible, ", kMaxEntries / width - 1));
    if (delays.size() < (*step + 1) * width) delays.resize((*step + 1) * width, kUnset);
    Duration& entry = delays[*step * width + static_cast<std::uint64_t>(*rank)];
    if (entry != kUnset) return wrong(text("a second row for step ", *step, " and rank ", *rank));
    entry = Duration{std::llround(*delay * 1e9)};
  }
  if (file.bad()) return Error{Errc::io, text("cannot read '", path, "': ", std::strerror(errno))};
  if (delays.empty()) return Error{Errc::bad_input, text("'", path, "' has no rows step,rank,seconds")};
  for (Duration& delay : delays) delay = std::max(delay, Duration{0});
  return delays;
}

}  // namespace stretto
