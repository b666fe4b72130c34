#include "command/cli/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/words.h"

namespace stretto::command {

namespace {

constexpr std::uint64_t kKiB = 1024;

std::string range_text(std::string_view what, double low, double high, bool too_large) {
  const bool bounded = high < std::numeric_limits<double>::max();
  if (bounded || too_large) return fmt::format("expected {} from {} to {}", what, low, high);
  if (low == std::numeric_limits<double>::min()) return fmt::format("expected {} above 0", what);
  return fmt::format("expected {} of at least {}", what, low);
}

/// Of a text that is no time as parse_duration() takes it: whether it is one that is longer than those.
bool is_too_long(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, value);
  const bool is_number = (error == std::errc() && value > 0) || error == std::errc::result_out_of_range;
  return is_number && stretto::parse_duration("1" + std::string(unit, end)).has_value();
}

}  // namespace

void reject(std::string_view option, std::string_view text, std::string_view expected, std::string_view example) {
  const std::string shown = text.empty() ? "''" : std::string(text);
  const std::string works = example.empty() ? std::string() : fmt::format(", as in {} {}", option, example);
  throw UsageError(fmt::format("{} {}: {}{}", option, shown, expected, works));
}

std::int64_t parse_integer(std::string_view option, const std::string& text, std::int64_t low, std::int64_t high,
                           std::string_view example) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool whole = error == std::errc() && rest == end;
  if (whole && value >= low && value <= high) return value;
  const bool too_large = error == std::errc::result_out_of_range && !text.starts_with('-');
  const bool bounded = too_large || high < std::numeric_limits<std::int64_t>::max();
  reject(option, text,
         bounded ? fmt::format("expected a whole number from {} to {}", low, high)
                 : fmt::format("expected a whole number of at least {}", low),
         example);
}

double parse_number(std::string_view option, const std::string& text, double low, double high,
                    std::string_view example) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end && value >= low && value <= high) return value;
  reject(option, text, range_text("a number", low, high, error == std::errc::result_out_of_range), example);
}

Duration parse_duration(std::string_view option, const std::string& text, std::string_view example) {
  if (const auto duration = stretto::parse_duration(text)) return *duration;
  if (is_too_long(text)) {
    reject(option, text, fmt::format("expected a time of at most {}", to_text(kLongestDuration)), example);
  }
  reject(option, text, "expected a time with its unit (s, ms, us)", example);
}

std::uint64_t parse_bytes(std::string_view option, const std::string& text, std::string_view example) {
  if (const auto bytes = bytes_from_text(text)) return *bytes;
  reject(option, text, "expected a size of whole bytes below 1e15, in bytes, KiB, MiB, GiB, or kB, MB, GB of thousands",
         example);
}

std::vector<std::uint64_t> parse_float32_sizes(std::string_view option, const std::string& list) {
  constexpr std::string_view kExample = "64,4KiB,4MiB";
  std::vector<std::uint64_t> sizes;
  for (const std::string& part : split_list(list)) {
    sizes.push_back(parse_bytes(option, part, kExample));
    if (sizes.back() == 0 || sizes.back() % sizeof(float) != 0) {
      reject(option, part, "expected whole float32 elements, a multiple of 4 bytes", kExample);
    }
  }
  if (sizes.empty()) reject(option, list, "expected at least one size", kExample);
  return sizes;
}

std::string to_bytes(std::uint64_t bytes) {
  constexpr std::pair<const char*, std::uint64_t> kUnits[] = {
      {"GiB", kKiB * kKiB * kKiB}, {"MiB", kKiB * kKiB}, {"KiB", kKiB}};
  for (const auto& [unit, factor] : kUnits) {
    if (bytes >= factor && bytes % factor == 0) return fmt::format("{} {}", bytes / factor, unit);
  }
  return fmt::format("{} B", bytes);
}

std::vector<std::string> split_list(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  std::size_t begin = 0;
  for (std::size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator, begin)) {
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

std::vector<std::string> split_policies(std::string_view text) {
  std::vector<std::string> out;
  for (std::string& part : split_list(text)) {
    const bool is_time =
        !part.empty() && (std::isdigit(static_cast<unsigned char>(part[0])) != 0 || part == "adaptive");
    if (is_time && !out.empty()) {
      out.back() += "," + part;
    } else {
      out.push_back(std::move(part));
    }
  }
  return out;
}

std::vector<std::string> parse_names(std::string_view option, const std::string& list,
                                     const std::vector<std::string>& known) {
  std::vector<std::string> out;
  for (const std::string& name : split_list(list)) {
    if (std::ranges::find(known, name) == known.end()) {
      throw UsageError(fmt::format("{} {}: {}", option, name.empty() ? "''" : name, suggestion(name, known)));
    }
    if (std::ranges::find(out, name) != out.end()) {
      reject(option, list, fmt::format("expected each once, and {} stands there twice", name), known.front());
    }
    out.push_back(name);
  }
  return out;
}

Setter into(int& target, int low, int high, std::string example) {
  return [&target, low, high, example](std::string_view option, const std::string& text) {
    target = static_cast<int>(parse_integer(option, text, low, high, example));
  };
}

Setter into(std::uint64_t& target, std::uint64_t low, std::string example) {
  return [&target, low, example](std::string_view option, const std::string& text) {
    target = static_cast<std::uint64_t>(
        parse_integer(option, text, static_cast<std::int64_t>(low), std::numeric_limits<std::int64_t>::max(), example));
  };
}

Setter into(double& target, double low, double high, std::string example) {
  return [&target, low, high, example](std::string_view option, const std::string& text) {
    target = parse_number(option, text, low, high, example);
  };
}

Setter into(Duration& target, std::string example) {
  return [&target, example](std::string_view option, const std::string& text) {
    target = parse_duration(option, text, example);
  };
}

Setter into(std::string& target) {
  return [&target](std::string_view option, const std::string& text) {
    if (text.empty()) reject(option, text, "expected a value");
    target = text;
  };
}

Setter into(std::string& target, std::vector<std::string> known) {
  return {std::move(known), into(target)};
}

Setter one_of(std::string& target, std::vector<std::string> known) {
  return {known, [&target, known](std::string_view option, const std::string& text) {
            if (std::find(known.begin(), known.end(), text) == known.end()) {
              throw UsageError(fmt::format("{} {}: {}", option, text, suggestion(text, known)));
            }
            target = text;
          }};
}

}  // namespace stretto::command
