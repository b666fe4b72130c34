#include "command/cli/print.h"

#include <fmt/format.h>

#include <algorithm>

namespace stretto::command {

namespace {

constexpr std::size_t kLongestWord = 200;
constexpr std::size_t kKept = 60;

// A character of several bytes stays whole or goes.
std::string_view beginning(std::string_view word) {
  std::size_t end = kKept;
  while (end > 0 && (static_cast<unsigned char>(word[end]) & 0xc0) == 0x80) --end;
  return word.substr(0, end);
}

std::string shown(std::string_view word) {
  if (word.size() <= kLongestWord) return std::string(word);
  if (word.ends_with(':')) return shown(word.substr(0, word.size() - 1)) + ':';
  return fmt::format("{}… ({} characters)", beginning(word), word.size());
}

std::string escaped(char c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  const auto code = static_cast<unsigned char>(c);
  return code < 0x20 || code == 0x7f ? fmt::format("\\x{:02x}", code) : std::string(1, c);
}

/// How many bytes the letter of UTF-8 has that `text` begins with; 0 where it begins with none.
std::size_t letter_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t bytes = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : (first & 0xf0) == 0xe0 ? 3 : 4;
  if (bytes > text.size() || (bytes == 4 && (first & 0xf8) != 0xf0)) return 0;
  const auto follows = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  return std::ranges::all_of(text.substr(1, bytes - 1), follows) ? bytes : 0;
}

}  // namespace

void print_to(std::FILE* stream, std::string_view text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stream));
}

std::string one_line(std::string_view text) {
  std::string out, word;
  while (!text.empty()) {
    const std::size_t bytes = letter_bytes(text);
    if (text.front() == ' ') {
      out += shown(word) + ' ';
      word.clear();
    } else if (bytes == 0) {
      word += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else {
      word += bytes == 1 ? escaped(text.front()) : std::string(text.substr(0, bytes));
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out + shown(word);
}

}  // namespace stretto::command
