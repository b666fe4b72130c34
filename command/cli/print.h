#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace stretto::command {

/// Writes `text` to a standard stream. Never throws: what cannot be written to standard error is lost, and of standard
/// output guarded() says so at the end.
void print_to(std::FILE* stream, std::string_view text);

/// The text as one line for a person: control characters are escaped, words of more than 200 bytes cut.
std::string one_line(std::string_view text);

}  // namespace stretto::command
