#include "command/cli/print.h"

#include <fmt/format.h>

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

}  // namespace

void print_to(std::FILE* stream, std::string_view text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stream));
}

std::string one_line(std::string_view text) {
  std::string out, word;
  for (const char c : text) {
    if (c == ' ') {
      out += shown(word) + ' ';
      word.clear();
    } else {
      word += escaped(c);
    }
  }
  return out + shown(word);
}

}  // namespace stretto::command
