#include "command/pages/roff.h"

#include <fmt/format.h>

namespace stretto::command {

namespace {

// The escape of an ASCII character that roff would take for something else, or print as something else; nullptr: none.
const char* escape_of(char c) {
  switch (c) {
    case '\\': return "\\e";
    case '-': return "\\-";  // the character of options, not a hyphen
    case '"': return "\\(dq";
    case '\'': return "\\(aq";
    case '`': return "\\(ga";
    case '^': return "\\(ha";
    case '~': return "\\(ti";
    default: return nullptr;
  }
}

}  // namespace

std::string roff_text(std::string_view text) {
  std::string out = text.starts_with('.') ? "\\&" : "";
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      const char* escape = escape_of(text[i++]);
      out += escape != nullptr ? std::string(escape) : std::string(1, static_cast<char>(first));
      continue;
    }
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    unsigned code = first & (0xFFU >> (length + 1));
    for (std::size_t k = 1; k < length && i + k < text.size(); ++k) {
      code = code << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    }
    out += fmt::format("\\[u{:04X}]", code);
    i += length;
  }
  return out;
}

std::string roff_bold(std::string_view text) {
  return "\\fB" + roff_text(text) + "\\fR";
}

}  // namespace stretto::command
