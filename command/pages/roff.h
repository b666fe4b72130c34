#pragma once

#include <string>
#include <string_view>

namespace stretto::command {

/// `text` as one line of roff: it is printed as it stands, to the last dash and quote, and is never taken for a
/// request. What is not ASCII becomes \[uXXXX], which every roff knows. Requires: UTF-8.
std::string roff_text(std::string_view text);

/// The same in bold, as a line of its own.
std::string roff_bold(std::string_view text);

}  // namespace stretto::command
