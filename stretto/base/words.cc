#include "stretto/base/words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace stretto {

namespace {

/// Between `before` and the next `after`; empty where they are not there.
std::string_view between(std::string_view whole, std::string_view before, std::string_view after) {
  const auto from = whole.find(before);
  if (from == std::string_view::npos) return {};
  const std::string_view rest = whole.substr(from + before.size());
  return rest.substr(0, rest.find(after));
}

constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string json_fault(const std::exception& error) {
  const std::string_view what = error.what();
  const auto* json = dynamic_cast<const nlohmann::json::exception*>(&error);
  if (json == nullptr) return std::string(what);
  constexpr int kNoJson = 101, kNoSuchType = 302, kNoSuchKey = 403, kTooLarge = 406;
  switch (json->id) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing …"
    case kNoJson: {
      const std::string_view at = between(what, "parse error at ", ": ");
      const bool ended = what.find("unexpected end of input") != std::string_view::npos;
      return ended ? text("it ends within its JSON, at ", at) : text(at, " is no JSON");
    }
    // "… type must be number, but is string"
    case kNoSuchType: {
      const std::string_view found = between(what, "but is ", "\n");
      if (!found.empty()) return text("a value is ", found, "; expected ", between(what, "type must be ", ","));
      break;
    }
    // "… key 'ranks' not found"
    case kNoSuchKey: return text("it lacks '", between(what, "key '", "'"), "'");
    case kTooLarge: return "a number is too large";
    default: break;
  }
  // "… cannot use at() with array"
  const std::string_view found = between(what, "() with ", "\n");
  if (!found.empty()) return text("a value is ", found, "; expected an object");
  return "a value is not what is expected there";
}

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKiB = 1024;
constexpr std::array<Unit, 12> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"kB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"KiB", kKiB},
                                          {"K", kKiB},
                                          {"k", kKiB},
                                          {"MiB", kKiB* kKiB},
                                          {"M", kKiB* kKiB},
                                          {"GiB", kKiB* kKiB* kKiB},
                                          {"G", kKiB* kKiB* kKiB}}};

}  // namespace

std::optional<std::uint64_t> bytes_from_text(std::string_view written) {
  double number = 0;
  const char* end = written.data() + written.size();
  const auto [rest, error] = std::from_chars(written.data(), end, number);
  std::string_view unit_name(rest, static_cast<std::size_t>(end - rest));
  while (unit_name.starts_with(' ')) unit_name.remove_prefix(1);
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == unit_name; });
  if (error != std::errc() || unit == kUnits.end()) return std::nullopt;
  const double bytes = number * unit->factor;
  if (!(bytes >= 0 && bytes < 1e15 && bytes == std::floor(bytes))) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

std::string nearest(std::string_view word, std::span<const std::string> known) {
  const std::string* best = nullptr;
  int best_distance = std::max(2, static_cast<int>(word.size()) / 3) + 1;
  for (const std::string& candidate : known) {
    // A word that was begun is meant more probably than one that merely looks alike.
    const bool begun = word.size() >= 3 && candidate.starts_with(word);
    const int distance = begun ? 1 : edit_distance(word, candidate);
    const bool mostly_alike = 2 * distance < static_cast<int>(std::max(word.size(), candidate.size()));
    if (distance < best_distance && mostly_alike) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? std::string() : *best;
}

std::string suggestion(std::string_view word, std::span<const std::string> known) {
  const std::string near = nearest(word, known);
  return text(near.empty() ? "" : "did you mean ", near, near.empty() ? "" : "? ", "Known: ", join(known));
}

std::string ranks_in_words(std::span<const int> ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) out += i + 1 == ranks.size() ? " and " : ", ";
    out += std::to_string(ranks[i]);
  }
  return out;
}

std::string join(std::span<const std::string> words, std::string_view separator) {
  std::string out;
  for (const std::string& word : words) {
    if (&word != words.data()) out += separator;
    out += word;
  }
  return out;
}

std::string base64(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t there = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k)
      word = word << 8 | (k < there ? std::to_integer<std::uint32_t>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) out += k <= there ? kBase64Digits[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::string bytes_of_base64(std::string_view letters) {
  constexpr int kBitsOfLetter = 6, kBitsOfByte = 8;
  std::string out;
  std::uint32_t bits = 0;
  int there = 0;
  for (const char letter : letters) {
    const std::size_t digit = kBase64Digits.find(letter);
    if (digit == std::string_view::npos) break;
    bits = bits << kBitsOfLetter | static_cast<std::uint32_t>(digit);
    there += kBitsOfLetter;
    if (there < kBitsOfByte) continue;
    there -= kBitsOfByte;
    out += static_cast<char>(bits >> there & 255);
  }
  return out;
}

}  // namespace stretto
